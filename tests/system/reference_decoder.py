"""Runs `ds_ctcdecoder` 0.9.3 in its own environment of Python 3.7.

Standard input: a JSON object with `alphabet` (a file), `probabilities` (a .npz file) and `searches`, each with
`beam_width`, `count`, and if wanted `scorer`, `alpha`, `beta` and `hot_words`. Standard output: for each search and
name in the file, the texts and their scores.
"""

import json
import sys

import ds_ctcdecoder  # type: ignore[import-not-found]
import numpy as np


def main():  # type: ignore[no-untyped-def]
    question = json.load(sys.stdin)
    alphabet = ds_ctcdecoder.Alphabet(question['alphabet'])
    utterances = np.load(question['probabilities'])
    results = []
    for search in question['searches']:
        scorer = None
        if search.get('scorer'):
            scorer = ds_ctcdecoder.Scorer(search['alpha'], search['beta'], search['scorer'], alphabet)
        hot_words = {word.encode(): boost for word, boost in search.get('hot_words', {}).items()}
        results.append(
            {
                name: [
                    (text, score)
                    for score, text in ds_ctcdecoder.ctc_beam_search_decoder(
                        utterances[name].tolist(),
                        alphabet,
                        search['beam_width'],
                        scorer=scorer,
                        hot_words=hot_words,
                        num_results=search['count'],
                    )
                ]
                for name in utterances.files
            }
        )
    print(json.dumps({'results': results}))


main()
