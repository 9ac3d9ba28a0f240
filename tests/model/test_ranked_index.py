"""A ranked replica against a sorted list: hostile values, batches of any cut, closing, crashing and opening again."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from storekeeper.changelog.restore import LogState
from storekeeper.clock import ManualClock
from storekeeper.node.replicas.ranked_index import IndexBudget, RankedIndex, RankedView, Score, negated
from storekeeper.node.replicas.replica import Replica
from storekeeper.protocol.replica_states import ReplicaId
from tests.changelog.messages import Record
from tests.node.replicas.keeping_storage import KeepingStorage
from tests.node.replicas.recording import DAY_MS, RecordingListener, batch

ID = ReplicaId("players", 0)


@dataclass(frozen=True)
class Value:
    """A row's value, and the score that a reader of plain JSON finds in it: None if there is none to rank by."""

    text: bytes
    score: Score | None

    def __repr__(self) -> str:
        return f"Value({self.text[:40]!r} of {len(self.text)} bytes, {self.score is not None})"


def scored(text: str, score: Score | None) -> Value:
    return Value(b'{"S":%b}' % text.encode(), score)


def beside(text: str, score: Score | None) -> Value:
    """A value whose score is 2.5 unless the field beside it makes the whole unreadable."""
    return Value(b'{"S":2.5,"X":%b}' % text.encode(), score)


FIELD = Decimal("2.5")
KEYS = st.integers(0, 40).map(lambda number: b"%02d" % number)
SCORES = st.one_of(
    st.integers(-3, 3).map(str),
    st.sampled_from(["0.1", "0.10000000000000000001", "1e1", "10", "-0.5", "123456789012345678901234567890"]),
)
HOSTILE = [
    *(scored(text, Decimal(text)) for text in ("-0.0", "0e0", "1e300", "1E-300", "0." + "3" * 190)),
    scored("-0", 0),
    scored("9" * 300, int("9" * 300)),
    *(
        scored(text, None)
        for text in (
            "1e-99999999999999999999",
            "1E+99999999999999999999",
            "-1e99999999999999999999",
            "1e400",
            "1e-401",
            "0." + "1" * 5000,
            "9" * 5000,
            "-" + "9" * 5000,
            "NaN",
            "Infinity",
            "-Infinity",
            '"1"',
            '"NaN"',
            "true",
            "false",
            "null",
            "[1]",
            '{"S":1}',
            "[" * 900 + "]" * 900,
            "[" * 100_000,
            "0x1f",
            "1_000",
            "+1",
            "",
        )
    ),
    beside("1e-99999999999999999999", FIELD),
    beside("9" * 300, FIELD),
    beside("[" * 50 + "]" * 50, FIELD),
    beside("[" + "[]," * 500 + "[]]", FIELD),
    *(beside("[" * depth + "]" * depth, None) for depth in (200, 900, 1020)),
    beside("NaN", None),
    beside("1e400", None),
    beside("9" * 5000, None),
    beside(r'"\ud800"', None),
    Value(b'{"S":1,"S":2.5}', FIELD),
    Value(b'{"S":2.5,"S":"x"}', None),
    Value(rb'{"\u0053":2.5}', FIELD),
    Value(b'{"s":1}', None),
    Value(b"{}", None),
    Value(b"[1]", None),
    Value(b"1", None),
    Value(b"no json", None),
    Value(b'{"S":1', None),
    Value(b"\xff\xfe{", None),
    Value(b"", None),
]
VALUES = st.one_of(
    SCORES.map(lambda text: scored(text, Decimal(text))), st.sampled_from(HOSTILE), st.sampled_from(HOSTILE), st.none()
)


class RankedIndexMachine(RuleBasedStateMachine):
    """Batches go into a replica and into a dictionary; views taken on the way never change."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.storage = KeepingStorage(ID)
        self.rows: dict[bytes, Value] = {}
        self.kept: list[tuple[RankedView, list[tuple[bytes, bytes]]]] = []
        self.offset = 0
        self.start_again()

    def start_again(self) -> None:
        """A new replica on what is stored, as after a crash."""
        self.budget = IndexBudget(1 << 30)
        self.index = RankedIndex("S", self.budget)
        self.replica = Replica(
            ID, "t", storage=self.storage, clock=self.clock, listener=RecordingListener(), index=self.index
        )
        self.replica.open(LogState("t", "id", 0, 0, self.offset, DAY_MS))

    @rule(changes=st.dictionaries(KEYS, VALUES, max_size=25))
    def apply(self, changes: dict[bytes, Value | None]) -> None:
        records = [
            Record(self.offset + place, key, None if value is None else value.text)
            for place, (key, value) in enumerate(changes.items())
        ]
        self.offset += len(records)
        self.replica.apply(batch(records, self.offset, end=True))
        for key, value in changes.items():
            self.rows.pop(key, None)
            if value is not None:
                self.rows[key] = value

    @rule()
    def keep_a_view(self) -> None:
        self.kept.append((self.index.view(), self._expected()))

    @rule()
    def crash(self) -> None:
        self.start_again()

    @precondition(lambda self: self.rows)
    @rule()
    def close_and_open(self) -> None:
        self.replica.close()
        assert self.budget.used_bytes == 0
        self.replica.open(LogState("t", "id", 0, 0, self.offset, DAY_MS))

    @rule(low=SCORES, high=SCORES)
    def scores_between(self, low: str, high: str) -> None:
        lowest, highest = Decimal(low), Decimal(high)
        found = [entry[1] for entry in self.index.view().behind((negated(highest),), lowest)]
        assert found == [key for key, _ in self._expected() if lowest <= self._score(key) <= highest]

    @invariant()
    def it_is_the_sorted_list(self) -> None:
        view, expected = self.index.view(), self._expected()
        assert [(key, value) for _, key, value in view.behind(None)] == expected
        assert (len(view), view.unranked) == (len(expected), len(self.rows) - len(expected))
        status = self.replica.status()
        assert (status.unranked_rows, status.trouble, status.serving) == (view.unranked, None, True)
        scores = [self._score(key) for key, _ in expected]
        for place, (key, _) in enumerate(expected):
            entry, seen = self.index.find(key)
            assert entry is not None
            assert seen.before(entry[:2]) == place
            assert seen.above(negated(entry[0])) == sum(score > scores[place] for score in scores)

    @invariant()
    def kept_views_are_as_they_were(self) -> None:
        for view, expected in self.kept[-3:]:
            assert [(key, value) for _, key, value in view.behind(None)] == expected

    def _score(self, key: bytes) -> Score:
        score = self.rows[key].score
        assert score is not None
        return score

    def _expected(self) -> list[tuple[bytes, bytes]]:
        ranked = [key for key, value in self.rows.items() if value.score is not None]
        return [(key, self.rows[key].text) for key in sorted(ranked, key=lambda key: (negated(self._score(key)), key))]


def test_whatever_is_in_the_rows_the_ranking_is_whole() -> None:
    run_state_machine_as_test(RankedIndexMachine, settings=settings(max_examples=40, stateful_step_count=15))
