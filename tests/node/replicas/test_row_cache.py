"""The cache of answers: bounded, and never left with what a write overtook."""

from __future__ import annotations

from storekeeper.node.replicas.replica_rows import RowCache


def test_the_older_half_goes_first() -> None:
    cache = RowCache(10_000)
    keys = [b"%04d" % number for number in range(200)]
    for key in keys:
        cache.put(key, ("replica", b"x" * 100, 0, True))
    kept = [key for key in keys if cache.get(key) is not None]
    assert kept == keys[-len(kept) :]
    assert 10 <= len(kept) <= 10_000 // 350


def test_what_is_too_large_is_not_kept() -> None:
    cache = RowCache(1000)
    cache.put(b"k", ("replica", b"x" * 1000, 0, True))
    assert cache.get(b"k") is None


def test_dropped_keys_are_gone_from_both_halves() -> None:
    cache = RowCache(2000)
    for key in (b"a", b"b", b"c", b"d"):
        cache.put(key, ("replica", b"x" * 150, 0, True))
    cache.drop([b"a", b"b", b"c", b"d", b"unknown"])
    assert [cache.get(key) for key in (b"a", b"b", b"c", b"d")] == [None] * 4
    cache.put(b"a", ("replica", b"x", 0, True))
    cache.clear()
    assert cache.get(b"a") is None
