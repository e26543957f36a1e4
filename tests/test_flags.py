"""The command line: the table, the parser, and the way to `Config`."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from deepspeech_training.config import CheckpointConfig, Config
from deepspeech_training.errors import FlagError
from deepspeech_training.flags.building import build_config, parse_size, without_effect
from deepspeech_training.flags.help import help_text, markdown
from deepspeech_training.flags.parsing import parse
from deepspeech_training.flags.table import FLAGS, GROUPS, RENAMED

ROOT = Path(__file__).resolve().parent.parent

DEEPSPEECH_FLAGS: dict[str, Any] = {
    # DeepSpeech 0.9's flags and defaults.
    'train_files': '', 'dev_files': '', 'test_files': '', 'metrics_files': '', 'read_buffer': '1MB',
    'feature_cache': '', 'cache_for_epochs': 0, 'feature_win_len': 32, 'feature_win_step': 20,
    'audio_sample_rate': 16000, 'normalize_sample_rate': True, 'augment': None, 'epochs': 75,
    'dropout_rate': 0.05, 'dropout_rate2': -1.0, 'dropout_rate3': -1.0, 'dropout_rate4': 0.0, 'dropout_rate5': 0.0,
    'dropout_rate6': -1.0, 'relu_clip': 20.0, 'beta1': 0.9, 'beta2': 0.999, 'epsilon': 1e-8, 'learning_rate': 0.001,
    'train_batch_size': 1, 'dev_batch_size': 1, 'test_batch_size': 1, 'export_batch_size': 1,
    'inter_op_parallelism_threads': 0, 'intra_op_parallelism_threads': 0, 'use_allow_growth': False,
    'load_cudnn': False, 'train_cudnn': False, 'automatic_mixed_precision': False, 'horovod': False,
    'limit_train': 0, 'limit_dev': 0, 'limit_test': 0, 'reverse_train': False, 'reverse_dev': False,
    'reverse_test': False, 'checkpoint_dir': '', 'load_checkpoint_dir': '', 'save_checkpoint_dir': '',
    'checkpoint_secs': 600, 'max_to_keep': 5, 'load_train': 'auto', 'load_evaluate': 'auto', 'drop_source_layers': 0,
    'export_dir': '', 'remove_export': False, 'export_tflite': False, 'n_steps': 16, 'export_zip': False,
    'export_file_name': 'output_graph', 'export_beam_width': 500, 'export_author_id': 'author',
    'export_model_name': 'model', 'export_model_version': '0.0.1', 'export_contact_info': '', 'export_license': '',
    'export_language': '', 'export_min_ds_version': '', 'export_max_ds_version': '', 'export_description': '',
    'log_level': 1, 'show_progressbar': True, 'log_placement': False, 'report_count': 5, 'summary_dir': '',
    'test_output_file': '', 'n_hidden': 2048, 'layer_norm': False, 'random_seed': 4568, 'early_stop': False,
    'es_epochs': 25, 'es_min_delta': 0.05, 'reduce_lr_on_plateau': False, 'plateau_epochs': 10,
    'plateau_reduction': 0.1, 'force_initialize_learning_rate': False, 'bytes_output_mode': False,
    'alphabet_config_path': 'data/alphabet.txt', 'scorer_path': '', 'beam_width': 1024,
    'lm_alpha': 0.931289039105002, 'lm_beta': 1.1834137581510284, 'cutoff_prob': 1.0, 'cutoff_top_n': 300,
    'one_shot_infer': '', 'lm_alpha_max': 5.0, 'lm_beta_max': 5.0, 'n_trials': 2400,
}  # fmt: skip


def problems(*args: str) -> list[str]:
    with pytest.raises(FlagError) as caught:
        build_config(parse(args))
    return str(caught.value).splitlines()


def value(flag: str, *args: str) -> Any:
    return parse(args).values[flag]


def test_deepspeech_flags_have_their_defaults() -> None:
    table = {name: FLAGS[name].default for name in DEEPSPEECH_FLAGS}
    assert table == DEEPSPEECH_FLAGS
    assert {name: type(default) for name, default in table.items()} == {
        name: type(default) for name, default in DEEPSPEECH_FLAGS.items()
    }


def test_names_are_unique_and_groups_are_complete() -> None:
    names = [name for group in GROUPS for flag in group.flags for name in (flag.name, *flag.aliases)]
    assert len(names) == len(set(names))
    assert set(RENAMED.values()) <= set(FLAGS)
    assert not set(RENAMED) & set(FLAGS)


def test_every_flag_reaches_config_or_says_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Setting a flag changes the `Config`, or is an error: none is ignored."""
    monkeypatch.setenv('XDG_DATA_HOME', '/data')
    others: dict[str, str] = {'path': 'x', 'paths': 'x', 'string': 'x', 'integer': '3', 'float': '0.25', 'size': '7KB',
                              'multi_string': 'x'}  # fmt: skip
    for flag in FLAGS.values():
        if flag.kind == 'boolean':
            args = [f'--{"no" if flag.default else ""}{flag.name}']
        elif flag.kind == 'enum':
            args = [f'--{flag.name}={next(choice for choice in flag.values if choice != flag.default)}']
        else:
            own = {'hot_words': 'x:1', 'train_weights': 'x=2'}
            args = [f'--{flag.name}={own.get(flag.name, others[flag.kind])}']
        if flag.tool:
            assert without_effect(parse(args)) == [f'--{flag.name} has no effect here: it is a flag of {flag.tool}']
        else:  # one flag becomes one value with the flag that it is for
            needed = {'mixed_precision_type': ['--automatic_mixed_precision'], 'train_weights': ['--train_files=x']}
            others_set = needed.get(flag.name, [])
            assert build_config(parse([*others_set, *args])) != build_config(parse(others_set)), flag.name


def test_defaults_are_those_of_config(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('XDG_DATA_HOME', '/data')
    config = build_config(parse([]))
    assert config.checkpoints.load_dir == config.checkpoints.save_dir == '/data/deepspeech_training/checkpoints'
    assert config.report.summary_dir == '/data/deepspeech_training/summaries'
    without_folders = replace(config, checkpoints=CheckpointConfig(), report=replace(config.report, summary_dir=''))
    assert without_folders == Config()


def test_targets_name_each_attribute_of_config_once() -> None:
    def attributes(part: Any, prefix: str) -> set[str]:
        return {
            name
            for field in fields(part)
            for name in (
                attributes(getattr(part, field.name), f'{field.name}.')
                if is_dataclass(getattr(part, field.name))
                else {prefix + field.name}
            )
        }

    targets = [flag.to for flag in FLAGS.values() if flag.to]
    folders = {'checkpoints.load_dir', 'checkpoints.save_dir', 'report.summary_dir'}
    combined = {'model.dropout', 'model.compute_type', 'data.train_weights', *folders}
    combined |= {'checkpoints.copy_to', 'export.copy_to'}
    combined |= {'decoding.lm_alpha', 'decoding.lm_beta', 'decoding.hot_words', 'export.scorer'}
    assert len(targets) == len(set(targets))
    assert set(targets) | combined == attributes(Config(), '')


@pytest.mark.parametrize(
    ('args', 'compute_type'),
    [
        ([], 'float32'),
        (['--mixed_precision_type=float16'], 'float32'),
        (['--automatic_mixed_precision'], 'auto'),
        (['--automatic_mixed_precision', '--mixed_precision_type=bfloat16'], 'bfloat16'),
    ],
)
def test_mixed_precision(args: list[str], compute_type: str) -> None:
    assert build_config(parse(args)).model.compute_type == compute_type


def test_default_folders_without_xdg_are_in_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv('XDG_DATA_HOME', raising=False)
    monkeypatch.setenv('HOME', '/home/someone')
    folder = build_config(parse([])).checkpoints.save_dir
    assert folder == '/home/someone/.local/share/deepspeech_training/checkpoints'


def test_checkpoint_dir_is_both_folders_unless_one_is_set() -> None:
    both = build_config(parse(['--checkpoint_dir=a'])).checkpoints
    assert (both.load_dir, both.save_dir) == ('a', 'a')
    other = build_config(parse(['--checkpoint_dir=a', '--load_checkpoint_dir', 'b'])).checkpoints
    assert (other.load_dir, other.save_dir) == ('b', 'a')


@pytest.mark.parametrize(
    ('flag', 'args', 'expected'),
    [
        ('epochs', ['--epochs', '3'], 3),
        ('epochs', ['--epochs=3'], 3),
        ('epochs', ['-epochs', '3'], 3),
        ('epochs', ['--epochs=3', '--epochs=4'], 4),
        ('dropout_rate2', ['--dropout_rate2', '-1'], -1.0),
        ('learning_rate', ['--learning_rate', '1e-4'], 1e-4),
        ('early_stop', ['--early_stop'], True),
        ('early_stop', ['--early_stop=True'], True),
        ('early_stop', ['--early_stop', '--noearly_stop'], False),
        ('normalize_sample_rate', ['--nonormalize_sample_rate'], False),
        ('normalize_sample_rate', ['--normalize_sample_rate=false'], False),
        ('scorer_path', ['--scorer', ''], ''),
        ('scorer_path', ['--scorer=x'], 'x'),
        ('export_description', ['--export_description', 'a = b -- c'], 'a = b -- c'),
        ('augment', ['--augment', 'a', '--augment', 'b'], ['a', 'b']),
    ],
)
def test_ways_to_write_a_flag(flag: str, args: list[str], expected: Any) -> None:
    assert value(flag, *args) == expected


def test_lists_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('HOME', '/home/someone')
    assert build_config(parse(['--train_files', 'a.csv, ~/b.csv'])).data.train_files == (
        'a.csv',
        '/home/someone/b.csv',
    )
    assert problems('--dev_files', 'a.csv,') == ['--dev_files=a.csv,: there is an empty name between the commas']


def test_dropout_of_minus_one_is_the_common_rate() -> None:
    config = build_config(parse(['--dropout_rate=0.3', '--dropout_rate3=0.1']))
    assert config.model.dropout == (0.3, 0.3, 0.1, 0.0, 0.0, 0.3)


@pytest.mark.parametrize(
    ('text', 'expected'),
    [('1MB', 2**20), ('512KB', 2**19), ('4096', 4096), ('1.5k', 1536), (' 2 gb ', 2**31), ('1TB', 2**40), ('8B', 8)],
)
def test_sizes(text: str, expected: int) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize('text', ['', 'MB', '1XB', '-1', '1e3', '0x10', '1 MB of it'])
def test_bad_sizes(text: str) -> None:
    assert problems(f'--read_buffer={text}') == [
        f'--read_buffer={text}: must be a number of bytes, or of KB, MB, GB or TB'
    ]


@pytest.mark.parametrize(
    ('args', 'expected'),
    [
        (['--epoch', '3'], '--epoch: no such flag; it is called --epochs'),
        (['--train_file=a.csv'], '--train_file: no such flag; did you mean --train_files?'),
        (['--n-hidden', '3'], '--n-hidden: no such flag; did you mean --n_hidden?'),
        (['--noearlystop'], '--noearlystop: no such flag; did you mean --noearly_stop?'),
        (['--qqq'], '--qqq: no such flag; --help lists all'),
        (['--noepochs'], '--noepochs: no such flag; did you mean --epochs?'),
        (['--epochs=3.5'], '--epochs=3.5: must be a whole number'),
        (['--epochs', 'many'], '--epochs=many: must be a whole number'),
        (['--epochs='], '--epochs=: must be a whole number'),
        (['--learning_rate=fast'], '--learning_rate=fast: must be a number'),
        (['--early_stop=maybe'], '--early_stop=maybe: must be true or false'),
        (['--load_train=newest'], '--load_train=newest: must be one of auto, last, best, init'),
        (['--noearly_stop=1'], '--noearly_stop=1: --noearly_stop takes no value'),
        (['--epochs'], '--epochs: its value is missing; write --epochs=VALUE'),
        (
            ['--checkpoint_dir', '--epochs', '3'],
            '--checkpoint_dir: its value is missing; the next word is --epochs; write --checkpoint_dir=VALUE',
        ),
        (['--flagfile'], '--flagfile: the name of the file is missing'),
        (['train.csv'], "'train.csv': a word that belongs to no flag"),
        (
            ['--early_stop', 'False'],
            "'False' after --early_stop: a word that belongs to no flag; write --noearly_stop",
        ),
        (
            ['--early_stop', 'true', '--epochs', '3'],
            "'true' after --early_stop: a word that belongs to no flag; write --early_stop alone",
        ),
        (
            ['--early_stop', 'x'],
            "'x' after --early_stop: a word that belongs to no flag; "
            '--early_stop takes none: write --early_stop or --noearly_stop',
        ),
        (
            ['--train_files', 'a.csv', 'b.csv'],
            "'b.csv' after --train_files a.csv: a word that belongs to no flag; "
            'separate several files by commas: --train_files a.csv,b.csv',
        ),
        (
            ['--train_files=a.csv', 'b.csv', 'c.csv', 'd.csv', 'e.csv'],
            "'b.csv', 'c.csv', 'd.csv' and 1 more after --train_files=a.csv: words that belong to no flag; "
            'separate several files by commas: --train_files a.csv,b.csv,c.csv,d.csv,...',
        ),
        (
            ['--export_model_name', 'my', 'model'],
            "'model' after --export_model_name my: a word that belongs to no flag; "
            'put quotes around a value with spaces: --export_model_name "my model"',
        ),
        (['--', '--early_stop'], "'--': a word that belongs to no flag"),
    ],
)
def test_errors_name_the_word_and_the_way_out(args: list[str], expected: str) -> None:
    assert problems(*args) == [expected]


def test_all_problems_are_named_at_once() -> None:
    named = problems('--epochs=x', '--foo', 'bar', '--early_stop', 'False', '--load_train=z')
    assert [re.split(r'[:=]', line)[0] for line in named] == [
        '--epochs',
        '--foo',
        "'False' after --early_stop",
        '--load_train',
    ]


def test_flagfile(tmp_path: Path) -> None:
    inner = tmp_path / 'inner.flags'
    inner.write_text('--n_hidden=100\n')
    outer = tmp_path / 'outer.flags'
    outer.write_bytes(
        b'\xef\xbb\xbf# a recipe\r\n\r\n// for tests\r\n--epochs 3\r\n  --early_stop\r\n'
        b'--export_description=words with = and spaces\r\n' + f'--flagfile={inner}\r\n'.encode()
    )
    parsed = parse(['--epochs=1', '--flagfile', str(outer), '--n_hidden=64'])
    assert parsed.values['epochs'] == 3
    assert parsed.values['early_stop'] is True
    assert parsed.values['export_description'] == 'words with = and spaces'
    assert parsed.values['n_hidden'] == 64
    assert parsed.given == {'epochs', 'early_stop', 'export_description', 'n_hidden'}


def test_errors_in_a_flagfile_name_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / 'recipe.flags'
    path.write_text('# recipe\n--epochs=x\n--epoch=3\n--early_stop False\nword\n--n_hidden')
    named = problems('--flagfile', str(path))
    assert [line[line.rindex(' (') :] for line in named] == [f' ({path}, line {number})' for number in (2, 3, 4, 6)]
    assert "'False', 'word' after --early_stop" in named[2]


def test_flagfile_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / 'missing.flags'
    assert problems(f'--flagfile={missing}') == [f'--flagfile {missing}: No such file or directory']
    binary = tmp_path / 'binary.flags'
    binary.write_bytes(b'--epochs=\xff\xfe3')
    assert 'not UTF-8' in problems(f'--flagfile={binary}')[0]
    circle = tmp_path / 'circle.flags'
    circle.write_text(f'--epochs=3\n--flagfile={circle}\n')
    assert problems(f'--flagfile={circle}') == [
        f'--flagfile {circle}: the file includes itself ({circle}, line 2)',
    ]


@pytest.mark.parametrize('word', ['-h', '-?', '--help', '--helpfull', '--helpshort'])
def test_help_wins_over_errors(word: str) -> None:
    assert parse(['--foo', word, '--epochs=x']).help


def test_flags_of_tools_are_known_but_not_for_this_program() -> None:
    assert {flag.name for flag in FLAGS.values() if flag.tool} == {'n_trials', 'lm_alpha_max', 'lm_beta_max'}
    assert without_effect(parse(['--n_trials=2400'])) == []
    assert build_config(parse(['--n_trials=5', '--lm_alpha_max=2'])) == build_config(parse([]))


def test_weights_of_the_language_model_are_the_scorers_unless_given() -> None:
    decoding = build_config(parse(['--scorer=a'])).decoding
    assert (decoding.scorer_path, decoding.lm_alpha, decoding.lm_beta, decoding.hot_words) == ('a', None, None, ())
    decoding = build_config(parse(['--lm_alpha=0.931289039105002', '--lm_beta=0'])).decoding
    assert (decoding.lm_alpha, decoding.lm_beta) == (0.931289039105002, 0.0)


def test_hot_words() -> None:
    words = build_config(parse(['--hot_words=computer:5, aus:-2.5,a:b:1'])).decoding.hot_words
    assert words == (('computer', 5.0), ('aus', -2.5), ('a:b', 1.0))
    for text in ('a', ':1', 'a:', 'a:x', 'a:nan', 'a:1,', 'two words:1'):
        with pytest.raises(FlagError, match='is no word with a boost'):
            build_config(parse([f'--hot_words={text}']))


def test_flags_without_effect_are_named() -> None:
    assert without_effect(parse(['--test_files=a.csv', '--epochs=3', '--shuffle_start=2', '--es_min_delta=1'])) == [
        '--shuffle_start has no effect without --shuffle_batches',
        '--epochs has no effect without --train_files',
        '--es_min_delta has no effect without --early_stop or --reduce_lr_on_plateau',
    ]
    assert without_effect(parse(['--train_files=a.csv', '--epochs=3', '--dev_batch_size=1'])) == []
    assert without_effect(parse(['--bytes_output_mode', '--alphabet_config_path=a.txt'])) == [
        '--alphabet_config_path has no effect with --bytes_output_mode'
    ]


@pytest.mark.parametrize('width', [40, 100, 200])
def test_help_shows_every_flag_and_fits(width: int) -> None:
    text = help_text(width)
    for flag in FLAGS.values():
        assert f'  {flag.usage()}\n' in text
        assert flag.help
    described = [line for line in text.splitlines() if line.startswith('      ')]
    assert max(map(len, described)) <= min(width, 120)
    assert '(default: 0.05)' in ' '.join(text.split())


def test_documentation_is_up_to_date() -> None:
    """Otherwise run bin/make_flag_doc.py."""
    assert (ROOT / 'doc' / 'flags.md').read_text(encoding='utf-8') == markdown()
