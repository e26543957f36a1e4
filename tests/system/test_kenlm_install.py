"""`bin/install_kenlm.sh`, and the programs that it has built."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.system.clients import cache, find_python

ROOT = Path(__file__).resolve().parents[2]

ARPA = """\\data\\
ngram 1=4
ngram 2=1

\\1-grams:
-99\t<s>\t0
-1\t</s>
-0.5\tone\t0
-2\t<unk>

\\2-grams:
-0.25\t<s> one

\\end\\
"""


def install(*arguments: str, folder: Path | None = None, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ['bash', str(ROOT / 'bin' / 'install_kenlm.sh'), *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=seconds,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize('version', ['3.12', '3.13'])  # the last that pip builds it for, and the first that it does not
def test_the_module_is_installed_into_any_python(version: str, tmp_path: Path) -> None:
    interpreter = find_python(version)
    if interpreter is None:
        pytest.skip(f'Python {version} is neither in PATH nor in pyenv')
    subprocess.run([interpreter, '-m', 'venv', str(tmp_path / 'venv')], check=True)
    python = 'venv/bin/python'  # as `make test` names it
    done = install('--module', '--python', python, folder=tmp_path, seconds=600)
    assert done.returncode == 0, done.stderr
    (tmp_path / 'words.arpa').write_text(ARPA)
    program = f'import kenlm; print(kenlm.Model({str(tmp_path / "words.arpa")!r}).score("one", bos=False, eos=False))'
    said = subprocess.run([tmp_path / python, '-c', program], capture_output=True, text=True, check=True)
    assert float(said.stdout) == -0.5
    assert install('--module', '--python', python, folder=tmp_path).returncode == 0


def test_programs_that_are_there_are_taken() -> None:
    if not list(cache('kenlm').glob('*/bin')):
        pytest.skip('KenLM is not built: bin/install_kenlm.sh does it, in some minutes')
    done = install()
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert {each.name for each in folder.iterdir()} == {'lmplz', 'filter', 'build_binary'}
    linked = subprocess.run(['ldd', str(folder / 'lmplz')], capture_output=True, text=True, check=True).stdout
    assert 'not found' not in linked


def test_wrong_usage() -> None:
    for arguments, message in (
        (['--pyton'], "unknown argument '--pyton'"),
        (['--python', 'none'], "no Python at 'none'"),
    ):
        done = install(*arguments)
        assert done.returncode == 2
        assert message in done.stderr
    assert 'lmplz, filter, build_binary' in install('--help').stdout
