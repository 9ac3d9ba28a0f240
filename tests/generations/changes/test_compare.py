"""Comparison of two contents: exact, whatever the order, in little memory, and without telling what rows hold."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storekeeper.generations.comparison import Change, ComparisonVerdict, Row, compare
from storekeeper.masked_keys import masked_key


def _doubled(key: bytes, value: bytes) -> list[Row]:
    """Another key, another value; none for an empty one, an error for `bad`."""
    if value == b"bad":
        raise ValueError(value)
    return [(b"n-" + key, value * 2)] if value else []


@pytest.fixture(autouse=True)
def _few_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storekeeper.generations.comparison._PARTS", 4)


def _ask(older: Iterable[Change], newer: Iterable[Change], folder: Path) -> ComparisonVerdict:
    return compare(older, newer, _doubled, folder)


OLDER: list[Change] = [(b"%d" % number, b"v%d" % number) for number in range(100)]
NEWER: list[Change] = [(b"n-" + key, (value or b"") * 2) for key, value in OLDER]


def test_what_is_the_same_holds_whatever_the_order(tmp_path: Path) -> None:
    verdict = _ask(OLDER, reversed(NEWER), tmp_path)
    assert (verdict.holds, verdict.compared, verdict.same) == (True, 100, 100)
    assert list(tmp_path.iterdir()) == []


def test_every_kind_of_difference_is_counted(tmp_path: Path) -> None:
    older = [*OLDER, (b"unconvertible", b"bad")]
    newer = [*NEWER[1:-1], (NEWER[-1][0], b"other"), (b"n-more", b"x")]
    verdict = _ask(older, newer, tmp_path)
    assert not verdict.holds
    assert (verdict.same, verdict.differing, verdict.missing, verdict.unexpected, verdict.unconvertible) == (
        *(98, 1, 1, 1),
        1,
    )
    assert verdict.compared == 101
    assert verdict.samples.missing == (masked_key(b"n-0"),)
    assert verdict.samples.unconvertible == (f"{masked_key(b'unconvertible')}: ValueError",)


def test_samples_are_few_and_tell_neither_keys_nor_values(tmp_path: Path) -> None:
    card, secret = b"4629185207", b"9889127612"
    verdict = _ask([(card, secret)] + [(b"k%03d" % n, b"v") for n in range(50)], [], tmp_path)
    assert len(verdict.samples.missing) == 5
    alone = _ask([(card, secret)], [], tmp_path)
    assert alone.samples.missing == (masked_key(b"n-" + card),)
    for told in map(repr, (verdict, alone)):
        assert card.decode() not in told
        assert secret.decode() not in told


_CHANGES = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), st.sampled_from([b"1", b"2", b"", None])))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(older=_CHANGES, newer=_CHANGES)
def test_it_equals_a_comparison_of_whole_contents(tmp_path: Path, older: list[Change], newer: list[Change]) -> None:
    newer = [(b"n-" + key, value) for key, value in newer]
    last_older, last_newer = dict(older), dict(newer)
    rows = [row for key, value in last_older.items() if value is not None for row in _doubled(key, value)]
    wanted, found = dict(rows), {key: value for key, value in last_newer.items() if value is not None}
    verdict = _ask(older, newer, tmp_path)
    both = wanted.keys() & found.keys()
    assert verdict.same == sum(wanted[key] == found[key] for key in both)
    assert verdict.differing == len(both) - verdict.same
    assert (verdict.missing, verdict.unexpected) == (
        len(wanted.keys() - found.keys()),
        len(found.keys() - wanted.keys()),
    )
    assert verdict.holds == (wanted == found)


def _many(rows: int) -> Iterator[Change]:
    return ((b"key-%08d" % number, b"%0200d" % number) for number in range(rows))


def _peak_bytes(rows: int, folder: Path) -> int:
    tracemalloc.start()
    try:
        verdict = compare(_many(rows), _many(rows), lambda key, value: [(key, value)], folder)
        assert verdict.same == rows
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_is_that_of_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storekeeper.generations.comparison._PARTS", 64)
    content_bytes = 20_000 * 212
    assert _peak_bytes(20_000, tmp_path) < content_bytes / 2


def test_rows_that_would_have_the_same_key_are_no_change_to_go_on_with(tmp_path: Path) -> None:
    older: list[Change] = [(b"a1", b"same"), (b"b1", b"same")]
    newer: list[Change] = [(b"1", b"same")]
    verdict = compare(older, newer, lambda key, value: [(key[1:], value)], tmp_path)
    assert (verdict.holds, verdict.unconvertible, verdict.same) == (False, 1, 1)


def test_what_is_told_of_a_key_is_the_part_that_is_asked_for(tmp_path: Path) -> None:
    verdict = compare([(b"store\0long-enough", b"v")], [], lambda *row: [row], tmp_path, key_of=lambda key: key[6:])
    assert verdict.samples.missing == (masked_key(b"long-enough"),)
