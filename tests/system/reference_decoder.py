"""Runs `ds_ctcdecoder` 0.9.3 in its own environment of Python 3.7.

Standard input: a JSON object with `alphabet` (a file; '' for bytes of UTF-8), `probabilities` (a .npz file) and
`searches`, each with `beam_width`, `count`, and if wanted `scorer`, `alpha`, `beta` and `hot_words`. All labels are
looked at.
Standard output: for each search and name in the file, the texts and their scores; bytes that are no UTF-8 replaced.
"""

import json
import sys

import ds_ctcdecoder  # type: ignore[import-not-found]
import numpy as np


def main():  # type: ignore[no-untyped-def]
    question = json.load(sys.stdin)
    path = question['alphabet']
    alphabet = ds_ctcdecoder.Alphabet(path) if path else ds_ctcdecoder.UTF8Alphabet()
    utterances = np.load(question['probabilities'])
    results = []
    for search in question['searches']:
        scorer = None
        if search.get('scorer'):
            scorer = ds_ctcdecoder.Scorer(search['alpha'], search['beta'], search['scorer'], alphabet)
        hot_words = {word.encode(): boost for word, boost in search.get('hot_words', {}).items()}
        options = search['beam_width'], 1.0, alphabet.GetSize() + 1, scorer, hot_words, search['count']
        found = {}
        for name in utterances.files:
            # The package's own function of this name fails on bytes that are no UTF-8.
            texts = ds_ctcdecoder.swigwrapper.ctc_beam_search_decoder(utterances[name].tolist(), alphabet, *options)
            found[name] = [(text_of(alphabet, each.tokens), each.confidence) for each in texts]
        results.append(found)
    print(json.dumps({'results': results}))


def text_of(alphabet, tokens):  # type: ignore[no-untyped-def]
    return super(type(alphabet), alphabet).Decode(tokens).decode('utf-8', 'replace')


main()
