"""The cluster's secret and its signatures."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from storekeeper.errors import ConfigurationError
from storekeeper.node.security.cluster_secret import derived, load_cluster_secret, sign, verified

SECRET = b"s" * 32


def test_the_file_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "secrets" / "cluster.key"
    secret = load_cluster_secret(path)
    assert len(secret) == 32
    assert load_cluster_secret(path) == secret
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == ["cluster.key"]


def test_all_who_make_it_at_once_get_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        found = set(pool.map(load_cluster_secret, [tmp_path / "cluster.key"] * 64))
    assert len(found) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_one_that_others_can_touch_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "cluster.key"
    load_cluster_secret(path)
    path.chmod(mode)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        load_cluster_secret(path)


def test_one_that_is_too_short_or_no_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cluster.key"
    path.touch(0o600)
    with pytest.raises(ConfigurationError, match="fewer than 32"):
        load_cluster_secret(path)
    with pytest.raises(ConfigurationError, match="is not a regular file"):
        load_cluster_secret(tmp_path)
    with pytest.raises(ConfigurationError):
        load_cluster_secret(path / "below")


def test_a_signature_fits_its_secret_purpose_and_data_only() -> None:
    signature = sign(SECRET, "cursor", b"data")
    assert verified(SECRET, "cursor", b"data", signature)
    assert not verified(b"x" * 32, "cursor", b"data", signature)
    assert not verified(SECRET, "hop", b"data", signature)
    assert not verified(SECRET, "cursor", b"date", signature)
    assert not verified(SECRET, "cursor", b"data", signature[:-1])
    assert not verified(SECRET, "cursor", b"data", b"")


def test_the_boundary_between_purpose_and_data_is_signed() -> None:
    assert sign(SECRET, "a", b"b:c") != sign(SECRET, "a:b", b"c")


def test_derived_keys_differ_by_purpose() -> None:
    assert len({derived(SECRET, "a"), derived(SECRET, "b"), SECRET}) == 3
