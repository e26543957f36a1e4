"""The directions of imports between the rooms of the package, read from its source."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = 'deepspeech_training'

LEVELS = (
    ('cli',),
    ('flags', 'train', 'evaluate', 'export', 'infer', 'transcription', 'tuning', 'doctor', 'importing', 'set_tool'),
    ('evaluation',),
    ('epochs', 'runtimes'),
    ('dev_sets',),
    ('passes', 'dev_transcripts'),
    ('graphs', 'agreement', 'totals'),
    ('parallel', 'model', 'data', 'checkpoints', 'summaries', 'schedule', 'decoding'),
    ('text', 'audio'),
    ('tool_arguments',),
    ('validation', 'start_checks'),
    ('augment_specs',),
    ('interrupts', 'programs', 'workers', 'mirrored'),
    ('mirror',),
    ('config', 'errors', 'log', 'launch', 'storage'),
)
"""A room opens doors to the levels below it only, not to its neighbours."""

FLAGS_SEE = ('config', 'errors', 'log', 'validation')
"""Flags know what a run is, not how it is done."""

OUTSIDE = {
    'absl': ('cli', 'flags'),
    'horovod': ('parallel.horovod',),
    'kenlm': ('decoding.scorer',),
    'optuna': ('tuning.study',),
    'onnx': ('export.onnx_graph', 'export.onnx_features'),
}
"""Packages that only these modules import."""

WITHOUT_TENSORFLOW = (
    *(
        'augment_specs',
        'text',
        'audio',
        'decoding',
        'evaluation',
        'doctor',
        'flags',
        'tool_arguments',
        'validation',
        'start_checks',
        'config',
        'errors',
        'log',
        'launch',
        'schedule',
        'importing',
        'set_tool',
        'storage',
        'mirror',
        'mirrored',
        'programs',
        'workers',
    ),
)

WITHOUT_TENSORFLOW_AT_IMPORT = (
    *('cli', 'data.checks', 'data.augmentation.augmenter', 'export.checks'),
    *('runtimes', 'runtimes.content', 'runtimes.metadata', 'runtimes.opening', 'runtimes.runtime'),
    *('runtimes.windowed', 'runtimes.tflite', 'runtimes.onnx'),
)
"""What runs before the first step, so that wrong input is answered quickly, and what works without TensorFlow."""


def modules() -> dict[str, Path]:
    """Every module of the package by its name below the package, as in 'data.checks'."""
    found = {}
    for path in sorted((ROOT / PACKAGE).rglob('*.py')):
        parts = path.relative_to(ROOT / PACKAGE).with_suffix('').parts
        name = '.'.join(parts[:-1] if parts[-1] == '__init__' else parts)
        if name:
            found[name] = path
    return found


def imported(path: Path) -> set[str]:
    """The full names of everything that `path` imports, inside functions too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f'{path}:{node.lineno}: imports are written in full'
            assert node.module is not None
            names |= {f'{node.module}.{alias.name}' for alias in node.names}
    return names


def room(module: str) -> str:
    return module.split('.')[0]


def doors(module: str, path: Path) -> set[str]:
    """The other rooms that `module` imports from."""
    inside = {name.removeprefix(f'{PACKAGE}.') for name in imported(path) if name.startswith(f'{PACKAGE}.')}
    return {room(name) for name in inside} - {room(module)}


def level(name: str) -> int:
    return next(number for number, rooms in enumerate(LEVELS) if name in rooms)


MODULES = modules()


def test_every_room_has_a_level() -> None:
    assert {room(module) for module in MODULES} <= {name for rooms in LEVELS for name in rooms}


@pytest.mark.parametrize('module', MODULES)
def test_imports_go_downward(module: str) -> None:
    wrong = [name for name in doors(module, MODULES[module]) if level(name) <= level(room(module))]
    assert not wrong, f'{module} opens the doors {wrong}'


@pytest.mark.parametrize('module', [module for module in MODULES if room(module) == 'flags'])
def test_flags_know_no_work(module: str) -> None:
    assert doors(module, MODULES[module]) <= set(FLAGS_SEE)


@pytest.mark.parametrize('module', [module for module in MODULES if room(module) == 'parallel'])
def test_parallel_knows_neither_model_nor_data(module: str) -> None:
    assert not doors(module, MODULES[module]) & {'model', 'data', 'text', 'audio'}


@pytest.mark.parametrize('module', MODULES)
def test_packages_are_imported_only_where_they_belong(module: str) -> None:
    for package, allowed in OUTSIDE.items():
        if module not in allowed and room(module) not in allowed:
            assert package not in {room(name) for name in imported(MODULES[module])}


@pytest.mark.parametrize('module', [module for module in MODULES if room(module) in WITHOUT_TENSORFLOW])
def test_rooms_without_tensorflow(module: str) -> None:
    assert 'tensorflow' not in {room(name) for name in imported(MODULES[module])}


@pytest.mark.parametrize('module', MODULES)
def test_no_module_makes_tensorflow_one_or_the_other(module: str) -> None:
    """Only the entry turns TensorFlow to graphs and sessions, so that importing a room changes nothing."""
    switches = [
        node.lineno
        for node in ast.walk(ast.parse(MODULES[module].read_text(encoding='utf-8')))
        if isinstance(node, ast.Attribute) and node.attr in ('disable_v2_behavior', 'disable_eager_execution')
    ]
    assert not switches or module == 'cli'


def test_what_answers_at_once_does_not_load_tensorflow() -> None:
    names = [
        f'{PACKAGE}.{module}'
        for module in MODULES
        if room(module) in WITHOUT_TENSORFLOW or module in WITHOUT_TENSORFLOW_AT_IMPORT
    ]
    program = (
        f'import importlib, sys\nfor name in {names}:\n    importlib.import_module(name)\n'
        "    assert 'tensorflow' not in sys.modules, name\n"
    )
    subprocess.run([sys.executable, '-c', program], cwd=ROOT, check=True, timeout=120)
