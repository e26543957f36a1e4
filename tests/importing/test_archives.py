"""Archives are unpacked whole, into the folder and nowhere else."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from deepspeech_training.errors import DataError
from deepspeech_training.importing.archives import is_archive, unpack
from tests.corpora import debian_package, pack

CONTENT = {'a/one.txt': b'first', 'a/b/two.bin': bytes(range(256)) * 500, 'empty': b''}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, content in CONTENT.items():
        path = tmp_path / 'tree' / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (1e9, 1e9))
    return tmp_path / 'tree'


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob('*') if path.is_file()}


def tar_with(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, 'w') as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b'x' * member.size))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = '') -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, 3 if kind == tarfile.REGTYPE else 0
    return info


@pytest.mark.parametrize('name', ['x.zip', 'x.tar', 'x.tgz', 'x.tar.bz2', 'x.tar.xz', 'x.deb', 'gzip.without.suffix'])
def test_every_kind(tree: Path, tmp_path: Path, name: str) -> None:
    archive = pack(tree, tmp_path / name)
    assert is_archive(archive)
    unpack(archive, tmp_path / 'out', show_progress=False)
    assert files(tmp_path / 'out') == CONTENT
    assert (tmp_path / 'out/a/one.txt').stat().st_mtime == 1e9


def test_a_second_attempt_writes_only_what_is_missing(tree: Path, tmp_path: Path) -> None:
    archive, out = pack(tree, tmp_path / 'x.tgz'), tmp_path / 'out'
    unpack(archive, out, show_progress=False)
    kept, cut = out / 'a/one.txt', out / 'a/b/two.bin'
    number = kept.stat().st_ino
    cut.write_bytes(b'half')  # as a copy that was interrupted
    (out / 'empty').unlink()
    (out / '.empty.part').write_bytes(b'from the attempt that was killed')
    unpack(archive, out, show_progress=False)
    assert files(out) == CONTENT
    assert kept.stat().st_ino == number


@pytest.mark.parametrize('name', ['../evil', '/evil', 'a/../../evil', 'a/..'])
@pytest.mark.parametrize('kind', ['zip', 'tar'])
def test_members_do_not_leave_the_folder(tmp_path: Path, name: str, kind: str) -> None:
    archive = tmp_path / f'x.{kind}'
    if kind == 'zip':
        with zipfile.ZipFile(archive, 'w') as zipped:
            zipped.writestr('good', 'x')
            zipped.writestr(name, 'x')
    else:
        tar_with(archive, member('good'), member(name))
    with pytest.raises(DataError, match='would be written outside') as caught:
        unpack(archive, tmp_path / 'in' / 'out', show_progress=False)
    assert str(archive) in str(caught.value)
    assert name in str(caught.value)
    assert [path.name for path in tmp_path.rglob('evil*')] == []


@pytest.mark.parametrize('kind', [tarfile.SYMTYPE, tarfile.LNKTYPE])
@pytest.mark.parametrize('target', ['../../secret', '{}/secret', '/etc/passwd'])
def test_links_do_not_leave_the_folder(tmp_path: Path, kind: bytes, target: str) -> None:
    (tmp_path / 'secret').write_text('s')
    archive = tar_with(tmp_path / 'x.tar', member('a/link', kind, target.format(tmp_path)), member('a/link/evil'))
    with pytest.raises(DataError, match='is a link to'):
        unpack(archive, tmp_path / 'in' / 'out', show_progress=False)
    assert not (tmp_path / 'in/out/a/link').exists()


def test_a_chain_of_links_does_not_leave_the_folder(tmp_path: Path) -> None:
    """Each link looks harmless by its name: `a` is the folder itself, and so `a/..` is the one above."""
    archive = tar_with(tmp_path / 'x.tar', member('d/a', tarfile.SYMTYPE, '..'), member('b', tarfile.SYMTYPE, 'd/a/..'))
    with pytest.raises(DataError, match=r"'b' is a link to 'd/a/\.\.'"):
        unpack(archive, tmp_path / 'out', show_progress=False)


def test_links_inside_are_kept(tmp_path: Path) -> None:
    archive = tar_with(
        tmp_path / 'x.tar', member('a/f'), member('b/l', tarfile.SYMTYPE, '../a/f'), member('h', tarfile.LNKTYPE, 'a/f')
    )
    for _ in range(2):
        unpack(archive, tmp_path / 'out', show_progress=False)
        assert files(tmp_path / 'out') == {'a/f': b'xxx', 'b/l': b'xxx', 'h': b'xxx'}
    assert (tmp_path / 'out/b/l').is_symlink()


def test_devices_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has 'pipe', which is neither"):
        unpack(tar_with(tmp_path / 'x.tar', member('pipe', tarfile.FIFOTYPE)), tmp_path / 'out', show_progress=False)


@pytest.mark.parametrize(
    ('name', 'damage'),
    [
        *((name, 'cut') for name in ('x.zip', 'x.tar', 'x.tgz', 'x.tar.bz2', 'x.tar.xz', 'x.deb')),
        *((name, 'changed') for name in ('x.zip', 'x.tgz', 'x.tar.bz2', 'x.tar.xz', 'x.deb')),  # .tar has no checksum
    ],
)
def test_damage_is_named(tmp_path: Path, name: str, damage: str) -> None:
    (tmp_path / 'tree').mkdir()
    (tmp_path / 'tree' / 'noise').write_bytes(os.urandom(200_000))
    archive = pack(tmp_path / 'tree', tmp_path / name)
    content = bytearray(archive.read_bytes())
    if damage == 'cut':
        content = content[:100_000]
    else:
        content[100_000:100_100] = bytes(100)
    archive.write_bytes(content)
    with pytest.raises(DataError) as caught:
        unpack(archive, tmp_path / 'out', show_progress=False)
    assert str(caught.value).startswith(f'{archive}: is damaged')
    assert not (tmp_path / 'out').exists()


def test_what_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / 'x.zip'
    for content in (b'', b'<html>Not found</html>' * 100):
        path.write_bytes(content)
        assert not is_archive(path)
        with pytest.raises(DataError, match='is no archive that can be unpacked'):
            unpack(path, tmp_path / 'out', show_progress=False)


def test_a_debian_package_by_zstd(tmp_path: Path) -> None:
    path = tmp_path / 'x.deb'
    path.write_bytes(debian_package('data.tar.zst', b'???'))
    with pytest.raises(DataError, match='dpkg-deb -x'):
        unpack(path, tmp_path / 'out', show_progress=False)


def test_a_full_disk(small_disk: Path, tmp_path: Path) -> None:
    (tmp_path / 'tree').mkdir()
    (tmp_path / 'tree' / 'zeros').write_bytes(bytes(3_000_000))
    archive = pack(tmp_path / 'tree', tmp_path / 'x.tgz')
    with pytest.raises(DataError, match='cannot be written: No space left'):
        unpack(archive, small_disk / 'out', show_progress=False)
    assert not (small_disk / 'out/zeros').exists()
