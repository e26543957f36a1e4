"""Training data that differ a little each time: what `--augment` says, done to audio, spectrograms and features."""
