"""Speech corpora made with eSpeak NG, for `bin/make_espeak_corpus.py`."""
