"""The index of a ranked store: scores, budget, many blocks, and readers beside the writer."""

from __future__ import annotations

import random
import threading
import zlib
from decimal import Decimal

import pytest

from harness.waiting import eventually
from storekeeper.changelog.checkpoint import METADATA_KEY, Checkpoint
from storekeeper.changelog.restore import LogState
from storekeeper.clock import ManualClock
from storekeeper.errors import SerializationError, StoreUnavailableError
from storekeeper.node.replicas import ranked_index
from storekeeper.node.replicas.ranked_index import IndexBudget, RankedIndex, Score, negated, score_of
from storekeeper.node.replicas.replica import Replica
from storekeeper.node.replicas.schema_rows import SchemaPendingError
from storekeeper.protocol.replica_states import ReplicaId
from storekeeper.stores.row import encode_row
from tests.changelog.messages import Record
from tests.node.replicas.keeping_storage import KeepingStorage
from tests.node.replicas.recording import DAY_MS, RecordingListener, batch

ID = ReplicaId("players", 0)
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
        (b'{"S": 1e-99999999999999999999}', None),
        (b'{"S": 2.5, "X": 1e-99999999999999999999}', Decimal("2.5")),
        (b'{"S": 2.5, "X": ' + b"[" * 900 + b"]" * 900 + b"}", None),
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
    with pytest.raises(StoreUnavailableError, match="`ranked_memory_mib`"):
        index.view()
    assert budget.used_bytes == 0
    index.apply([(b"b", b'{"S":1}')])
    assert index.trouble is not None
    index.clear()
    index.built()
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
    storage = KeepingStorage(ID)
    replica = Replica(ID, "t", storage=storage, clock=clock, listener=RecordingListener(), index=index)
    replica.open(LogState("t", "id-1", 0, 0, 3, DAY_MS))
    replica.apply(batch([Record(0, b"a", b'{"S":1}'), Record(1, b"b", b'{"S":2}'), Record(2, b"a", b'{"S":3}')]))
    assert [key for _, key, _ in index.view().behind(None)] == [b"a", b"b"]
    replica.close()
    with pytest.raises(StoreUnavailableError, match="being built"):
        index.view()
    replica.open(LogState("t", "id-1", 0, 0, 3, DAY_MS))
    assert [(key, value) for _, key, value in index.view().behind(None)] == [(b"a", b'{"S":3}'), (b"b", b'{"S":2}')]
    replica.apply(batch([Record(3, b"a", None)]))
    assert [key for _, key, _ in index.view().behind(None)] == [b"b"]


def test_a_value_that_can_not_be_taken_in_leaves_no_part_of_a_ranking(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = IndexBudget(1 << 20)
    index = RankedIndex("S", budget)
    index.apply([(b"a", b'{"S":1}')])

    def failing(value: bytes, field: str) -> Score | None:
        raise ArithmeticError("as a decimal might")

    monkeypatch.setattr(ranked_index, "score_of", failing)
    index.apply([(b"b", b'{"S":2}')])
    assert index.trouble is not None
    for ask in (index.view, lambda: index.find(b"a")):
        with pytest.raises(StoreUnavailableError, match="failed: the node's log says why"):
            ask()
    assert budget.used_bytes == 0
    monkeypatch.undo()
    index.apply([(b"c", b'{"S":3}')])
    assert index.trouble is not None, "half a ranking is none"


def test_a_ranking_answers_nothing_while_it_is_built() -> None:
    index = RankedIndex("S", IndexBudget(1 << 20))
    index.clear()
    index.apply([(b"a", b'{"S":1}')])
    with pytest.raises(StoreUnavailableError, match="being built"):
        index.view()
    with pytest.raises(StoreUnavailableError, match="being built"):
        index.find(b"a")
    assert index.trouble is None
    index.built()
    assert len(index.view()) == 1


def test_a_store_whose_rows_can_not_be_read_for_its_ranking_is_not_opened() -> None:
    """Otherwise it would be followed on with the part of its rows that were read."""
    clock = ManualClock()
    storage = KeepingStorage(ID)
    index = RankedIndex("S", IndexBudget(1 << 30))
    replica = Replica(ID, "t", storage=storage, clock=clock, listener=RecordingListener(), index=index)
    store = storage.open(ID)
    store.write([(b"%04d" % number, encode_row(b'{"S":1}', schema_version=1, timestamp_ms=0)) for number in range(600)])
    later = bytearray(encode_row(b'{"S":1}', schema_version=1, timestamp_ms=0))
    later[0] = 9
    later[11:15] = zlib.crc32(later[15:], zlib.crc32(later[:11])).to_bytes(4, "big")
    store.write([(b"later", bytes(later))], {METADATA_KEY: Checkpoint("t", "id-1", 0, 3, 0).encode()})
    with pytest.raises(SerializationError):
        replica.open(LogState("t", "id-1", 0, 0, 3, DAY_MS))
    assert not replica.is_open
    assert not replica.serving
    with pytest.raises(StoreUnavailableError):
        index.view()


class LateSchemas:
    """Values behind a letter that stands for their schema; each can be read once its schema is known."""

    def __init__(self, known: str) -> None:
        self.known = known

    def shown(self, value: bytes) -> bytes:
        if value[:1].decode() not in self.known:
            raise SchemaPendingError("ask again")
        return value[1:]


def ranked(index: RankedIndex) -> list[tuple[bytes, bytes]] | None:
    try:
        return [(key, value) for _, key, value in index.view().behind(None)]
    except StoreUnavailableError:
        return None


def test_a_ranking_is_of_the_json_of_values_and_waits_for_a_schema_that_is_not_known_yet() -> None:
    schemas, budget = LateSchemas("a"), IndexBudget(1 << 20)
    index = RankedIndex("S", budget, schemas.shown)
    index.apply([(b"x", b'a{"S": 1}'), (b"y", b'a{"S": 2.5}'), (b"z", b'b{"S": 2}'), (b"gone", b'b{"S": 9}')])
    with pytest.raises(StoreUnavailableError, match="waits for a schema of 2 rows: ask again"):
        index.view()
    with pytest.raises(StoreUnavailableError, match="waits for a schema"):
        index.find(b"x")
    index.apply([(b"gone", None), (b"x", b'b{"S": 7}')])
    assert ranked(index) is None
    schemas.known = "ab"
    expected = [(b"x", b'{"S": 7}'), (b"y", b'{"S": 2.5}'), (b"z", b'{"S": 2}')]
    assert eventually(lambda: ranked(index), 30, "the ranking has its schema") == expected
    assert index.left_out_rows == 0
    index.clear()
    assert budget.used_bytes == 0


def test_rows_that_wait_count_as_memory_and_leave_no_part_of_a_ranking() -> None:
    index = RankedIndex("S", IndexBudget(1000), LateSchemas("").shown)
    index.apply([(b"x", b"a" * 2000)])
    assert index.trouble is not None
    assert "has outgrown" in index.trouble


def test_a_row_that_waits_is_dropped_with_the_rest_when_a_ranking_is_built_anew() -> None:
    schemas = LateSchemas("")
    index = RankedIndex("S", IndexBudget(1 << 20), schemas.shown)
    index.apply([(b"x", b'a{"S": 1}')])
    index.clear()
    index.built()
    assert ranked(index) == []
