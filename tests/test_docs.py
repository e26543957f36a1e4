"""The documentation: what it names exists, what it shows as a command is one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import make_espeak_corpus
import pytest

from deepspeech_training import __version__
from deepspeech_training.flags.building import build_config
from deepspeech_training.flags.parsing import FLAGFILE, HELP_FLAGS, parse
from deepspeech_training.flags.table import FLAGS
from deepspeech_training.validation import validate
from tests.test_flags import DEEPSPEECH_FLAGS

ROOT = Path(__file__).resolve().parent.parent
PAGES = {path.relative_to(ROOT).as_posix(): path for path in (*ROOT.glob('*.md'), *(ROOT / 'doc').glob('*.md'))}
DIFFERENCES = 'doc/differences.md'

TOP_FILES = re.compile(r'(?:Makefile|DeepSpeech\.py|setup\.py|pyproject\.toml|[A-Z]{2,}\.md|\.ci/run)')
INSIDE = re.compile(r'(?:deepspeech_training|bin|doc|tests|requirements|data)/[\w./-]*(?:\.\w+|/)')
"""A path of this repository: what a user's own files are called begins otherwise."""

NO_FLAGS_OF_OURS = ('logdir', 'model', 'audio', 'name', 'noname')
"""Flags of tensorboard and of the deepspeech client; how flags are written in general."""

LAUNCHERS = ('horovodrun', 'mpirun', 'srun')
FLAGS_OF_LAUNCHERS = (
    *('gloo', 'hostfile', 'verbose'),
    *('input', 'mpi', 'nodelist', 'nodes', 'ntasks', 'output', 'requeue', 'signal', 'time'),
)
"""Those without a hyphen, which no flag of ours has."""

FLAGS_OF_SERVERS = (
    *('rm', 'dir', 'tag_set', 'signature_def', 'enable_batching'),
    *('onnx', 'saveEngine', 'fp16', 'minShapes', 'optShapes', 'maxShapes'),
)
"""Those of Docker, saved_model_cli, TensorFlow Serving and trtexec, as above."""

MACHINE = re.compile(r'(?<![\w.])/(?:work|tmp|home|root|mnt|Users)/')


def read(page: str) -> str:
    return PAGES[page].read_text(encoding='utf-8')


def code_blocks(text: str) -> Iterator[str]:
    """The lines of fenced and of indented blocks, with continued lines joined."""
    fenced, lines = False, []
    for line in text.splitlines():
        if line.startswith('```'):
            fenced = not fenced
        elif fenced or line.startswith('    '):
            lines.append(line.strip())
    yield from '\n'.join(lines).replace('\\\n', ' ').splitlines()


def code(text: str) -> str:
    """Everything in code blocks and between single backticks."""
    spans = re.findall(r'`([^`\n]+)`', text)
    return '\n'.join([*spans, *code_blocks(text)])


def commands(program: str) -> list[tuple[str, str]]:
    """Page and arguments of every command in a code block that runs `program` with Python, or has it run."""
    launched = rf'(?:(?:exec )?(?:{"|".join(LAUNCHERS)}) .*?)?'
    found = []
    for page in PAGES:
        for line in code_blocks(read(page)):
            match = re.match(rf'(?:\w+=\S+ )*{launched}\S*python3? {re.escape(program)}(?: (.*))?$', line)
            if match:
                found.append((page, match[1] or ''))
    return found


def headings(page: str) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    titles = re.findall(r'^#+ (.+)$', read(page), re.MULTILINE)
    return {re.sub(r'[^\w\- ]', '', title.lower()).replace(' ', '-') for title in titles}


def section(page: str, title: str) -> str:
    """The text below a heading up to the next of its level."""
    return read(page).split(f'\n## {title}\n')[1].split('\n## ')[0]


def flags_in(text: str) -> set[str]:
    return set(re.findall(r'(?<![\w-])--([a-z]\w*)(?![\w*-])', text))  # not `--export_*`, nor `--cpu-bind`


def rows_of_flags(title: str) -> set[str]:
    """The flags in the first column of the table in a section of the differences."""
    rows = [line.split('|')[1] for line in section(DIFFERENCES, title).splitlines() if line.startswith('| `')]
    return set().union(*map(flags_in, rows))


def flags_of_tools() -> set[str]:
    files = [*(ROOT / 'bin').glob('*'), ROOT / 'deepspeech_training/importing/program.py']
    sources = [path.read_text(encoding='utf-8') for path in files if path.is_file()]
    return {name for source in sources for name in re.findall(r"""['" ]--([a-z]\w*)""", source)}


def test_all_pages_are_in_the_index() -> None:
    names = {Path(page).name for page in PAGES if page.startswith('doc/')} - {'index.md'}
    assert {'training.md', 'parallel-optimization.md', 'features.md', 'flags.md', 'export.md'} <= names
    index = read('doc/index.md')
    assert [name for name in sorted(names) if f']({name})' not in index] == []


@pytest.mark.parametrize('page', PAGES)
def test_relative_links_resolve(page: str) -> None:
    targets = [t for t in re.findall(r'\]\(([^)\s]+)\)', read(page)) if not re.match(r'https?:', t)]
    for target in targets:
        name, _, anchor = target.partition('#')
        path = (PAGES[page].parent / name).resolve() if name else PAGES[page]
        assert path.exists(), f'{page}: {target}'
        if anchor:
            assert anchor in headings(path.relative_to(ROOT).as_posix()), f'{page}: {target}'


@pytest.mark.parametrize('page', PAGES)
def test_files_of_the_repository_exist(page: str) -> None:
    text = '\n'.join([code(read(page)), *re.findall(r'\[([^\]]+)\]\(', read(page))])  # link texts too
    words = [word.strip('`,;:()\'"') for word in re.split(r'[\s=]+', text)]
    named = {word for word in words if TOP_FILES.fullmatch(word) or INSIDE.fullmatch(word)}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize('page', PAGES)
def test_flags_exist(page: str) -> None:
    known = {name for flag in FLAGS.values() for name in (flag.name, *flag.aliases)}
    known |= {f'no{flag.name}' for flag in FLAGS.values() if flag.is_boolean}
    known |= {FLAGFILE, *HELP_FLAGS, *NO_FLAGS_OF_OURS, *FLAGS_OF_LAUNCHERS, *FLAGS_OF_SERVERS, *flags_of_tools()}
    assert sorted(flags_in(read(page)) - known) == []


@pytest.mark.parametrize('page', PAGES)
def test_make_targets_exist(page: str) -> None:
    targets = re.findall(r'^([a-z][\w-]*)(?: [\w-]+)*:(?!=)', (ROOT / 'Makefile').read_text(), re.MULTILINE)
    named = re.findall(r'(?:^|\s)make(?: [A-Z_]+=(?:\'[^\']*\'|\S+))* ([a-z][\w-]*)', code(read(page)), re.MULTILINE)
    assert sorted(set(named) - set(targets)) == []
    assert {'demo', 'test', 'lint'} <= set(targets)


def test_commands_are_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsed, made a `Config` and validated; whether the user's files are there is not asked."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'my-model').mkdir()
    (tmp_path / 'my-model' / 'flags.txt').write_text('--train_files my-data/train.csv\n', encoding='utf-8')
    found = commands('DeepSpeech.py')
    pages = [page for page, _ in found]
    assert {'README.md', 'doc/training.md', 'doc/parallel-optimization.md'} <= set(pages)
    assert pages.count('doc/distributed.md') == 6, 'one host, several, mpirun, twice Slurm, Kubernetes'
    for _, arguments in found:
        parsed = parse(shlex.split(arguments))
        if not parsed.help:
            validate(build_config(parsed))


def test_corpora_can_be_made() -> None:
    found = commands('bin/make_espeak_corpus.py')
    assert found
    for _, arguments in found:
        parsed = make_espeak_corpus.build_parser().parse_args(shlex.split(arguments))
        assert parsed.folder
        assert (ROOT / parsed.grammar).is_file()


def test_commands_are_shown_for_python_only() -> None:
    """A command that begins otherwise would escape the tests above."""
    for page in PAGES:
        for line in code_blocks(read(page)):
            if 'DeepSpeech.py ' in line and ' --' in line:
                assert re.search(r'\bpython3? DeepSpeech\.py ', line), f'{page}: {line}'


def test_new_flags_are_listed() -> None:
    assert rows_of_flags('New flags') == set(FLAGS) - set(DEEPSPEECH_FLAGS)


def test_flags_of_tools_are_listed() -> None:
    tools = {flag.name: flag.tool for flag in FLAGS.values() if flag.tool}
    assert rows_of_flags('Flags of tools') == set(tools)
    assert all((ROOT / tool).is_file() for tool in tools.values())


def test_changelog_has_this_version() -> None:
    assert f'\n## [{__version__}]' in read('CHANGELOG.md')


@pytest.mark.parametrize('page', PAGES)
def test_no_path_of_one_machine(page: str) -> None:
    assert MACHINE.findall(read(page)) == []
