"""What the history of a key says, and the difference of two times, equal a replay of what was produced."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from storekeeper.errors import NotExactError
from storekeeper.serdes.keys.sessions import session_row_key
from storekeeper.serdes.keys.versions import version_row_key
from storekeeper.serdes.keys.windows import window_row_key
from storekeeper.snapshots.differences import Difference, difference
from storekeeper.snapshots.history_reads import StoreHistory
from storekeeper.snapshots.key_changes import changes_of_key, row_of
from storekeeper.snapshots.key_changes import fields_of as fields_of_record
from storekeeper.stores.store_definitions import ServedKind
from tests.snapshots.made_history import START_MS, Produced, RowKey, fields_of, played, value_of

KEYS = [b"a", b"aa", b"card-7", b"\x00\xff"]
ROW_KEYS = {
    ServedKind.KEY_VALUE: KEYS,
    ServedKind.RANKED: KEYS,
    ServedKind.WINDOW: [window_row_key(key, start) for key in KEYS for start in (0, 60_000)],
    ServedKind.SESSION: [session_row_key(key, start, start + 7) for key in KEYS for start in (0, 60_000)],
    ServedKind.VERSIONED: [version_row_key(key, start) for key in KEYS for start in (0, 60_000)],
}


def opened(root: Path, produced: Produced) -> StoreHistory:
    produced.write(root, "rewards", appends=3)
    history = StoreHistory.beside(root / "rewards")
    assert history is not None
    return history


@pytest.mark.parametrize("kind", ROW_KEYS, ids=str)
def test_the_changes_of_a_key_give_its_rows_at_every_time(kind: ServedKind, tmp_path: Path) -> None:
    produced = played(len(kind.value), ROW_KEYS[kind], batches=60, kind=kind)
    history = opened(tmp_path, produced)
    for key in KEYS:
        changes = changes_of_key(history, key, most=1000)
        assert [change.at_ms for change in changes] == sorted((change.at_ms for change in changes), reverse=True)
        for at_ms, rows in produced.states:
            newest = {}
            for change in reversed(changes):
                if change.at_ms <= at_ms:
                    newest[change.partition, *change.row.values()] = change.fields
            found = {place: fields for place, fields in newest.items() if fields is not None}
            assert found == _of_key(kind, key, rows)


def _of_key(kind: ServedKind, key: bytes, rows: dict[RowKey, bytes]) -> dict[tuple[object, ...], dict[str, object]]:
    named = {place: row_of(kind, place[1]) for place in rows}
    shown = key.decode() if key != b"\x00\xff" else key
    return {(place[0], *row.values()): fields_of(rows[place]) for place, row in named.items() if row["key"] == shown}


def test_a_change_says_when_by_which_batch_and_where_it_is(tmp_path: Path) -> None:
    produced = Produced()
    produced.commit([(2, b"c1", value_of("c1", "1.5", 1)), (2, b"c2", value_of("c2", "7", 1))])
    produced.commit([(2, b"c2", None), (2, b"c1", None)])
    newest, first = changes_of_key(opened(tmp_path, produced), b"c1", most=9)
    assert (first.batch, first.at_ms, first.partition, first.offset) == (1, produced.states[0][0], 2, 0)
    assert first.fields == {"Card": "c1", "Points": Decimal("1.5000"), "Visits": 1}
    assert (newest.batch, newest.at_ms, newest.offset, newest.fields) == (2, produced.now_ms, 3, None)
    assert changes_of_key(opened(tmp_path / "again", produced), b"c", most=9) == []


def test_a_row_that_a_generation_begins_without_ends_there(tmp_path: Path) -> None:
    produced = Produced()
    produced.commit([(0, b"c1", value_of("c1", "1.5", 1))])
    produced.hand_over({})
    produced.commit([(0, b"c2", value_of("c2", "1", 1))])
    ended, _ = changes_of_key(opened(tmp_path, produced), b"c1", most=9)
    assert (ended.at_ms, ended.fields, ended.batch, ended.offset) == (produced.eras[1], None, None, None)


def test_no_more_changes_are_read_than_asked_for_and_those_of_a_time(tmp_path: Path) -> None:
    produced = Produced()
    for visits in range(9):
        produced.commit([(0, b"c1", value_of("c1", "1", visits))])
    history = opened(tmp_path, produced)
    times = [at_ms for at_ms, _ in produced.states]
    assert [one.at_ms for one in changes_of_key(history, b"c1", most=4)] == times[:-5:-1]
    between = changes_of_key(history, b"c1", most=9, from_ms=times[2], to_ms=times[4])
    assert [one.at_ms for one in between] == [times[4], times[3], times[2]]


def test_differences_equal_those_of_a_replay(tmp_path: Path) -> None:
    produced = played(11, KEYS, batches=60)
    history, drawn = opened(tmp_path, produced), random.Random(11)
    times = [START_MS, *(ms for ms, _ in produced.states)]
    for _ in range(25):
        from_ms, to_ms = drawn.choice(times), drawn.choice(times)
        before, after = produced.at(from_ms), produced.at(to_ms)
        if produced.era(from_ms) != produced.era(to_ms):
            before = _moved(before, after)
        found = difference(history, from_ms, to_ms, most=1000)
        places = {place for place in before | after if before.get(place) != after.get(place)}
        assert {(one.partition, one.row["key"]): (one.before, one.after) for one in found.rows} == {
            (partition, row_of(ServedKind.KEY_VALUE, key)["key"]): tuple(
                None if (value := side.get((partition, key))) is None else fields_of(value) for side in (before, after)
            )
            for partition, key in places
        }
        assert sum(found.counts.values()) == len(places)
        _check_totals(found, before, after)


def _moved(before: dict[RowKey, bytes], after: dict[RowKey, bytes]) -> dict[RowKey, bytes]:
    """The rows of an earlier generation at the places of the later: a row that is the only one of its key has moved."""
    places, counts = (
        {key: partition for partition, key in after},
        [Counter(key for _, key in side) for side in (before, after)],
    )
    alone = {key for key in places if all(count[key] == 1 for count in counts)}
    return {(places[key] if key in alone else partition, key): value for (partition, key), value in before.items()}


def _check_totals(found: Difference, before: dict[RowKey, bytes], after: dict[RowKey, bytes]) -> None:
    assert [total.of for total in found.totals] == ["rows", "Points", "Visits"]
    for total in found.totals:
        expected = [
            len(side) if total.of == "rows" else sum(fields_of(value)[total.of] for value in side.values())  # type: ignore[misc]
            for side in (before, after)
        ]
        assert [total.before or 0, total.after or 0] == expected
        assert total.difference == expected[1] - expected[0]


class Wide(Produced):
    """Its points have as many digits as a column can: all of them 9 in place of a 1."""

    def table(self) -> pa.Table:
        changes = super().table()
        points = [int(point) * int("9" * 38) for point in changes["Points"].to_pylist()]
        at = changes.schema.get_field_index("Points")
        return changes.set_column(at, "Points", pa.array(points, pa.decimal128(38, 0)))


def test_a_sum_has_all_digits_however_many(tmp_path: Path) -> None:
    produced, most = Wide(), int("9" * 38)
    produced.commit([(0, b"c%d" % number, value_of("c", "1", 1)) for number in range(3)])
    produced.commit([(0, b"c0", value_of("c", "0", 1))])
    found = difference(opened(tmp_path, produced), produced.states[0][0], produced.now_ms, most=9)
    (points,) = [total for total in found.totals if total.of == "Points"]
    assert (points.before, points.after, points.difference) == (3 * most, 2 * most, -most)
    assert len(found.rows) == 1


def test_the_difference_of_one_key_is_its_own(tmp_path: Path) -> None:
    produced = played(11, KEYS, batches=60)
    found = difference(opened(tmp_path, produced), START_MS, produced.now_ms, most=9, key=b"a")
    assert {one.row["key"] for one in found.rows} == {"a"}


def test_no_more_rows_are_shown_than_asked_for_and_all_are_counted(tmp_path: Path) -> None:
    produced = Produced()
    produced.commit([(0, b"c%d" % number, value_of("c", "1", 1)) for number in range(9)])
    found = difference(opened(tmp_path, produced), START_MS, produced.now_ms, most=4)
    assert (len(found.rows), found.counts) == (4, {"added": 9})


def test_a_time_that_is_not_known_is_refused(tmp_path: Path) -> None:
    produced = played(3, KEYS, batches=9)
    with pytest.raises(NotExactError, match="is not known"):
        difference(opened(tmp_path, produced), START_MS - 1, produced.now_ms, most=1)


def test_a_row_whose_key_no_window_store_makes_is_shown_by_the_whole_of_it(tmp_path: Path) -> None:
    """Such as a foreign record's, or a row of the store before it became one of windows."""
    keys = {b"abc": "abc", b"customer-4836051607": "customer-4836051607", b"\0" + b"\xff" * 12: b"\0" + b"\xff" * 12}
    for kind, names in ((ServedKind.WINDOW, ["start_ms"]), (ServedKind.SESSION, ["start_ms", "end_ms"])):
        produced = Produced(kind)
        produced.commit([(0, key, value_of("c1", "1", 1)) for key in keys])
        produced.commit([(0, key, None) for key in keys])
        found = difference(opened(tmp_path / kind.value, produced), produced.states[0][0], produced.now_ms, most=9)
        assert {one.row["key"] for one in found.rows} == {*keys.values()}
        assert all([*one.row.values()][1:] == [None] * len(names) for one in found.rows)


def test_a_row_that_a_new_generation_has_in_another_partition_is_the_same_row(tmp_path: Path) -> None:
    produced = Produced()
    same, changed = value_of("c1", "1", 1), value_of("c2", "2", 2)
    produced.commit([(0, b"c1", same), (0, b"c2", same), (0, b"c3", same), (1, b"c3", same)])
    produced.hand_over({(2, b"c1"): same, (1, b"c2"): changed, (1, b"c3"): same})
    found = difference(opened(tmp_path, produced), produced.states[0][0], produced.now_ms, most=9)
    assert found.counts == {"changed": 1, "removed": 1}
    assert [(one.row["key"], one.change) for one in found.rows] == [("c2", "changed"), ("c3", "removed")]


@pytest.mark.parametrize("name", ["a", "b", "before", "_place", "change"])
def test_a_column_may_have_any_name(tmp_path: Path, name: str) -> None:
    produced = Produced()
    produced.commit([(0, b"c1", value_of("c1", "1", 1))])
    produced.commit([(0, b"c1", value_of("c2", "1", 1))])
    produced.write(tmp_path, "rewards", names={"Card": name}, columns={name: "string"})
    history = StoreHistory.beside(tmp_path / "rewards")
    assert history is not None
    (one,) = difference(history, produced.states[0][0], produced.now_ms, most=9).rows
    assert one.before is not None
    assert one.after is not None
    assert (one.before[name], one.after[name]) == ("c1", "c2")


def test_bytes_that_are_no_json_are_not_taken_for_another_encoding() -> None:
    assert fields_of_record({"_value": b"1\0"}, []) == {"value": "1\0"}
    assert fields_of_record({"_value": b"[1, 2.50]"}, []) == {"value": [1, Decimal("2.50")]}
