"""The index of a ranked store: scores, budget, many blocks, and readers beside the writer."""

from __future__ import annotations

import random
import threading
from decimal import Decimal

import pytest

from state.changelog.restore import LogState
from state.clock import ManualClock
from state.errors import StoreUnavailableError
from state.replicas.places import MemoryPlace
from state.replicas.ranked_index import IndexBudget, RankedIndex, Score, negated, score_of
from state.replicas.replica import Replica
from state.replicas.states import ReplicaId
from tests.state.changelog.messages import Record
from tests.state.replicas.recording import DAY_MS, RecordingListener, batch

EXPONENT = b'{"S": 1e999999999}'


@pytest.mark.parametrize(
    ("value", "score"),
    [
        (b'{"S": 7}', 7),
        (b'{"S": -0.10}', Decimal("-0.10")),
        (b'{"S": 12345678901234567890123456789}', 12345678901234567890123456789),
        (b'{"S": 0.1000000000000000055511151231257827}', Decimal("0.1000000000000000055511151231257827")),
        (b'{"S": true}', None),
        (b'{"S": "7"}', None),
        (b'{"S": NaN}', None),
        (EXPONENT, None),
        (b'{"T": 7}', None),
        (b"7", None),
        (b"{", None),
        (b'{"S": ' + b"9" * 5000 + b"}", None),
    ],
)
def test_a_score_is_exactly_what_is_written(value: bytes, score: Score | None) -> None:
    assert score_of(value, "S") == score


def test_a_negated_score_is_never_rounded() -> None:
    score = Decimal("0.1000000000000000055511151231257827")
    assert negated(negated(score)) == score


def test_many_blocks_stay_in_order_while_rows_come_change_and_go() -> None:
    index = RankedIndex("S", IndexBudget(1 << 30))
    rows: dict[bytes, int] = {}
    chance = random.Random(7)
    for _ in range(60):
        changes: dict[bytes, int | None] = {
            b"%05d" % chance.randrange(4000): chance.choice([None, *range(0, 900, 7)]) for _ in range(100)
        }
        index.apply((key, None if score is None else b'{"S":%d}' % score) for key, score in changes.items())
        for key, score in changes.items():
            rows.pop(key, None)
            if score is not None:
                rows[key] = score
    view = index.view()
    expected = sorted((-score, key) for key, score in rows.items())
    assert len(view.blocks) > 3
    assert [entry[:2] for entry in view.behind(None)] == expected
    assert [view.before(place) for place in expected] == list(range(len(expected)))


def test_an_index_that_outgrows_its_memory_says_so_and_gives_it_back() -> None:
    budget = IndexBudget(2000)
    index = RankedIndex("S", budget)
    index.apply([(b"a", b'{"S":1}')])
    index.apply([(b"%d" % number, b'{"S":1}') for number in range(10)])
    with pytest.raises(StoreUnavailableError, match="STOREKEEPER_RANKED_MEMORY_MIB"):
        index.view()
    assert budget.used_bytes == 0
    index.apply([(b"b", b'{"S":1}')])
    assert not index.holds_rows
    index.clear()
    assert len(index.view()) == 0


def test_readers_see_whole_batches_only() -> None:
    """Every batch moves 50 keys to one score together: a view with two of them would be half a batch."""
    index = RankedIndex("S", IndexBudget(1 << 30))
    keys = [b"%02d" % number for number in range(50)]
    index.apply((key, b'{"S":0}') for key in keys)
    stop = threading.Event()

    def write() -> None:
        score = 0
        while not stop.is_set():
            score += 1
            index.apply((key, b'{"S":%d}' % score) for key in keys)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(400):
            assert len({entry[0] for entry in index.view().behind(None)}) == 1
            entry, view = index.find(keys[7])
            assert entry is not None
            assert view.holds(entry)
            assert view.above(negated(entry[0])) == 0
    finally:
        stop.set()
        writer.join()


def test_a_replica_keeps_its_index_in_step_and_builds_it_anew_when_opened() -> None:
    clock = ManualClock()
    index = RankedIndex("S", IndexBudget(1 << 30))
    place = KeepingPlace(clock)
    replica = Replica(ReplicaId("players", 0), "t", place=place, clock=clock, listener=RecordingListener(), index=index)
    replica.open(LogState("t", "id-1", 0, 0, 3, DAY_MS))
    replica.apply(batch([Record(0, b"a", b'{"S":1}'), Record(1, b"b", b'{"S":2}'), Record(2, b"a", b'{"S":3}')]))
    assert [key for _, key, _ in index.view().behind(None)] == [b"a", b"b"]
    replica.close()
    assert len(index.view()) == 0
    replica.open(LogState("t", "id-1", 0, 0, 3, DAY_MS))
    assert [(key, value) for _, key, value in index.view().behind(None)] == [(b"a", b'{"S":3}'), (b"b", b'{"S":2}')]
    replica.apply(batch([Record(3, b"a", None)]))
    assert [key for _, key, _ in index.view().behind(None)] == [b"b"]


class KeepingPlace(MemoryPlace):
    """Opens the same store again, as a disk would."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self._kept = super().open(ReplicaId("players", 0))
        self._kept.close = lambda: None  # type: ignore[method-assign]

    def open(self, replica: ReplicaId):  # type: ignore[no-untyped-def]
        return self._kept
