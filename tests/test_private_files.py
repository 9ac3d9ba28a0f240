"""Secrets are read from files that are the owner's alone, and nothing else is waited for or followed.

A run directory is mended: private, but for those on an access list of its tables.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from storekeeper.client.credentials import Credentials
from storekeeper.errors import ConfigurationError
from storekeeper.node.security.access import read_tokens
from storekeeper.node.security.cluster_secret import load_cluster_secret
from storekeeper.private_files import check_regular, check_secret, mend_modes, private_folder, read_secret
from tests.readable import let_read_tables, open_to_others, reached_by, some_group

SECRET = b"x" * 32


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(SECRET)
    path.chmod(0o600)
    return path


READERS: list[Callable[[Path], object]] = [
    load_cluster_secret,
    read_tokens,
    lambda path: Credentials(token_file=path).headers(),
    lambda path: Credentials(certificate_file=path).ssl_context(),
    lambda path: check_secret(path, "the key"),
]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("read", READERS)
def test_a_fifo_is_refused_at_once(tmp_path: Path, read: Callable[[Path], object]) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ConfigurationError, match="is not a regular file"):
        read(tmp_path / "pipe")


@pytest.mark.timeout(20)
def test_a_fifo_in_place_of_a_certificate_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for use in (lambda path: Credentials(ca_file=path).ssl_context(), lambda path: check_regular(path, "the CA")):
        with pytest.raises(ConfigurationError, match="is not a regular file"):
            use(tmp_path / "pipe")


@pytest.mark.parametrize("read", READERS)
def test_a_link_is_refused(file: Path, read: Callable[[Path], object]) -> None:
    link = file.with_name("link")
    link.symlink_to(file)
    with pytest.raises(ConfigurationError, match="link is a symbolic link"):
        read(link)


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o604, 0o666])
def test_a_file_that_others_may_use_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(ConfigurationError, match=r"others can read or write the key .*chmod 600"):
        read_secret(file, "the key")


def test_a_file_that_is_too_long_is_refused_and_never_cut(file: Path) -> None:
    file.write_bytes(SECRET * (1 << 15))
    assert len(read_secret(file, "the key")) == 1 << 20
    file.write_bytes(SECRET * (1 << 15) + b"x")
    with pytest.raises(ConfigurationError, match=r"the key .*secret is longer than 1 MiB"):
        read_secret(file, "the key")


def test_a_file_of_somebody_else_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_secret(file, "the key") == SECRET
    owner = file.stat()
    fields = [*owner[:10]]
    fields[stat.ST_UID] = os.geteuid() + 1
    monkeypatch.setattr(os, "fstat", lambda _: os.stat_result(fields))
    with pytest.raises(ConfigurationError, match=f"belongs to another user .id {os.geteuid() + 1}"):
        read_secret(file, "the key")


def test_a_missing_file_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_secret(tmp_path / "none", "the key")


def test_a_folder_is_made_private_and_mended(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    for mode in (None, 0o755, 0o777):
        if mode is not None:
            folder.chmod(mode)
        private_folder(folder)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o710)
    private_folder(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o710, "a group may pass on its way to the tables"


@pytest.mark.parametrize("dangling", [False, True])
def test_a_link_in_place_of_a_folder_is_refused(tmp_path: Path, dangling: bool) -> None:
    if not dangling:
        (tmp_path / "elsewhere").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="is a symbolic link"):
        private_folder(tmp_path / "link")
    assert (tmp_path / "elsewhere").exists() is not dangling


def test_a_file_in_place_of_a_folder_is_refused(file: Path) -> None:
    with pytest.raises(ConfigurationError, match="can't make the folder"):
        private_folder(file)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A run directory as an earlier version with a usual umask left it."""
    root = tmp_path / "run"
    for name in ("logs/a.log", "delta/t/_delta_log/0.json", "delta/t/day=1/part"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch(0o644)
    for path in (root, *root.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (root / "link").symlink_to(tmp_path)
    return root


def test_what_others_could_read_is_mended(root: Path) -> None:
    before = stat.S_IMODE(root.parent.stat().st_mode)
    mend_modes(root)
    assert open_to_others(root) == set()
    assert stat.S_IMODE(root.parent.stat().st_mode) == before, "a link is not followed"


def test_a_group_on_the_access_list_of_the_tables_reads_them_and_nothing_else(root: Path) -> None:
    group = some_group().gr_gid
    let_read_tables(root, root / "delta", group)
    (root / "delta" / "t" / "day=1" / "part").chmod(0o644)
    mend_modes(root)
    (root / "delta" / "t" / "day=2").mkdir()
    (root / "delta" / "t" / "day=2" / "part").touch()  # new ones, too
    (root / "logs" / "b.log").touch(0o644)  # in a folder that nobody may enter
    assert reached_by(root, group) == {root / "delta", *(root / "delta").rglob("*")}
    assert stat.S_IMODE(root.stat().st_mode) == 0o710
    assert reached_by(root, os.getegid()) == set(), "the owner's own group is not on the list"
    assert not [path for path in (root / "delta").rglob("*") if path.stat().st_mode & 0o007]


def test_a_system_without_access_lists_has_private_files(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "listxattr")
    mend_modes(root)
    assert open_to_others(root) == set()
