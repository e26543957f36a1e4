"""Which of a checkpoint's tensors go into which variables of the graph, and what to say when they do not fit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deepspeech_training.config import LAYERS
from deepspeech_training.errors import CheckpointError
from deepspeech_training.text.alphabet import NO_NORMALIZATION, normalize
from deepspeech_training.text.byte_alphabet import BYTE_NAMES, BYTES_OUTPUT_FLAG

Shapes = Mapping[str, Sequence[int]]

CUDNN_SLOTS = 'cudnn_lstm/opaque_kernel'
"""Adam's moments in checkpoints of DeepSpeech that trained with CuDNN are kept for its one opaque parameter."""


@dataclass(frozen=True)
class Geometry:
    """What the flags say about the model in a checkpoint: for messages, and kept with each checkpoint.

    `labels`: the characters, in order, of the Unicode normal form `normalization`. `features`: by flag, the settings
    that MFCCs depend on.
    """

    n_hidden: int
    alphabet_size: int
    alphabet_path: str
    labels: tuple[str, ...] = ()
    features: Mapping[str, Any] = field(default_factory=dict)
    normalization: str = NO_NORMALIZATION

    def to_json(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""
        return {
            'n_hidden': self.n_hidden,
            'alphabet': list(self.labels),
            'unicode_normalization': self.normalization,
            'features': dict(self.features),
        }


def check_description(path: str, description: Mapping[str, Any], geometry: Geometry) -> None:
    """Raises `CheckpointError` when a checkpoint was trained on other features, or its characters are others.

    `description` is what `Geometry.to_json` gave then; what it does not have is not compared.
    """
    differ = [
        f'it was trained with --{flag}={there}, and here it is {geometry.features[flag]}'
        for flag, there in dict(description.get('features') or {}).items()
        if flag in geometry.features and there != geometry.features[flag]
    ]
    if geometry.labels:
        differ += _other_labels(tuple(description.get('alphabet') or geometry.labels), geometry)
    if differ:
        raise CheckpointError(
            f'checkpoint {path} does not fit: {"; ".join(differ)}. Use the settings it was trained with, or '
            'another directory'
        )


def _other_labels(labels: tuple[str, ...], geometry: Geometry) -> list[str]:
    """How the `labels` of a checkpoint differ from those of `geometry`, where not just their number does."""
    if (labels == BYTE_NAMES) != (geometry.labels == BYTE_NAMES):
        there = BYTES_OUTPUT_FLAG if labels == BYTE_NAMES else f'an alphabet of {len(labels)} characters'
        return [f'it was trained with {there}, and here it is {geometry.alphabet_path}']
    pairs = zip(labels, geometry.labels, strict=False)
    # The same letter in another normal form is the same letter.
    others = [place for place, (a, b) in enumerate(pairs) if normalize(a, 'NFC') != normalize(b, 'NFC')]
    if len(labels) != len(geometry.labels) or not others:
        return []
    place = others[0]
    return [
        f'its alphabet has the same size but other characters than {geometry.alphabet_path}: number {place + 1} '
        f'is {labels[place]!r} there and {geometry.labels[place]!r} here'
    ]


def missing_variables(path: str, wanted: Shapes, weights: set[str], there: Shapes, geometry: Geometry) -> list[str]:
    """The names of `wanted` variables that the checkpoint `path` does not have, and that may start anew.

    `wanted`: shapes of the graph's variables. `weights`: those among them that are trained. `there`: the checkpoint's.

    Raises `CheckpointError`: a weight is missing or has another shape, or the layers are others.
    """
    _check_layer_norm(path, weights, there)
    missing = [name for name in wanted if name not in there]
    _check_weights(path, sorted(weights.intersection(missing)), there)
    _check_shapes(path, {name: wanted[name] for name in wanted if name in there}, there, geometry)
    return sorted(missing)


def dropped_variables(names: Iterable[str], layers: int) -> set[str]:
    """Those of the last `layers` layers, with their moments: exactly these."""
    dropped = LAYERS[len(LAYERS) - layers :]
    return {name for name in names if belongs_to(dropped, name)}


def belongs_to(layers: Collection[str], name: str) -> bool:
    """Whether the variable `name` is one of these `layers`, or a moment of one: by the first part of the name."""
    return name.split('/', 1)[0] in layers


def is_from_cudnn(there: Shapes) -> bool:
    """Whether a checkpoint has the moments of CuDNN's LSTM in CuDNN's format."""
    return any(name.startswith(CUDNN_SLOTS) for name in there)


def _check_layer_norm(path: str, weights: set[str], there: Shapes) -> None:
    theirs = any('LayerNorm' in name for name in there)
    if theirs != any('LayerNorm' in name for name in weights):
        raise CheckpointError(
            f'{path} was trained {"with" if theirs else "without"} --layer_norm: '
            f'{"give" if theirs else "leave out"} that flag here too'
        )


def _check_weights(path: str, missing: Sequence[str], there: Shapes) -> None:
    if not missing:
        return
    if CUDNN_SLOTS in there:
        raise CheckpointError(
            f"{path} holds its LSTM in CuDNN's own format only, without the weights by name that DeepSpeech writes; "
            'it cannot be read'
        )
    raise CheckpointError(f'{path} lacks weights of this model: {", ".join(missing)}')


def _check_shapes(path: str, wanted: Shapes, there: Shapes, geometry: Geometry) -> None:
    """Raises with the names users know, alphabet and --n_hidden, where these explain the difference."""
    differ = {
        name: (list(there[name]), list(shape)) for name, shape in wanted.items() if list(there[name]) != list(shape)
    }
    if not differ:
        return
    reasons = []
    if 'layer_1/bias' in differ:
        theirs = differ['layer_1/bias'][0][0]
        reasons.append(f'it has n_hidden {theirs}, but --n_hidden is {geometry.n_hidden}')
    if 'layer_6/bias' in differ:
        theirs = differ['layer_6/bias'][0][0] - 1
        as_bytes = f', as with {BYTES_OUTPUT_FLAG}' if theirs == len(BYTE_NAMES) else ''
        reasons.append(
            f'it was trained with an alphabet of {theirs} characters{as_bytes}, but {geometry.alphabet_path} has '
            f'{geometry.alphabet_size}'
        )
    if not reasons:
        reasons = [f'{name} has shape {a} there and {b} here' for name, (a, b) in sorted(differ.items())]
    raise CheckpointError(
        f'checkpoint {path} does not fit: {"; ".join(reasons)}. Use the settings it was trained with, or '
        'another directory'
    )
