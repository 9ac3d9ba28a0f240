"""The ranked index against a sorted list."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from state.replicas.ranked_index import IndexBudget, RankedIndex, RankedView, negated

KEYS = st.integers(0, 40).map(lambda number: b"%02d" % number)
SCORES = st.one_of(
    st.integers(-3, 3).map(str),
    st.sampled_from(["0.1", "0.10000000000000000001", "1e1", "10", "-0.5", "123456789012345678901234567890"]),
)
VALUES = st.one_of(
    SCORES.map(lambda score: b'{"S":%b}' % score.encode()),
    st.sampled_from([b"{}", b'{"S":"1"}', b'{"S":true}', b'{"S":null}', b"[1]", b"no json", b""]),
    st.none(),
)


class RankedIndexMachine(RuleBasedStateMachine):
    """Batches go into the index and into a dictionary; views taken on the way never change."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = IndexBudget(1 << 30)
        self.index = RankedIndex("S", self.budget)
        self.rows: dict[bytes, bytes] = {}
        self.kept: list[tuple[RankedView, list[tuple[bytes, bytes]]]] = []

    @rule(batch=st.dictionaries(KEYS, VALUES, max_size=25))
    def apply(self, batch: dict[bytes, bytes | None]) -> None:
        self.index.apply(batch.items())
        for key, value in batch.items():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value

    @rule()
    def keep_a_view(self) -> None:
        self.kept.append((self.index.view(), self._expected()))

    @precondition(lambda self: self.rows)
    @rule()
    def clear(self) -> None:
        self.index.clear()
        self.rows.clear()
        assert self.budget.used_bytes == 0

    @rule(low=SCORES, high=SCORES)
    def scores_between(self, low: str, high: str) -> None:
        lowest, highest = Decimal(low), Decimal(high)
        found = [entry[1] for entry in self.index.view().behind((negated(highest),), lowest)]
        assert found == [key for key, value in self._expected() if lowest <= _score(value) <= highest]  # type: ignore[operator]

    @invariant()
    def it_is_the_sorted_list(self) -> None:
        view, expected = self.index.view(), self._expected()
        assert [(key, value) for _, key, value in view.behind(None)] == expected
        assert (len(view), view.unranked) == (len(expected), len(self.rows) - len(expected))
        scores = [_score(value) for _, value in expected]
        for place, (key, _) in enumerate(expected):
            entry, seen = self.index.find(key)
            assert entry is not None
            assert seen.before(entry[:2]) == place
            assert seen.above(negated(entry[0])) == sum(score > scores[place] for score in scores)  # type: ignore[operator]

    @invariant()
    def kept_views_are_as_they_were(self) -> None:
        for view, expected in self.kept[-3:]:
            assert [(key, value) for _, key, value in view.behind(None)] == expected

    def _expected(self) -> list[tuple[bytes, bytes]]:
        ranked = [(key, value) for key, value in self.rows.items() if _score(value) is not None]
        return sorted(ranked, key=lambda row: (negated(_score(row[1]) or 0), row[0]))


def _score(value: bytes) -> Decimal | None:
    text = value.decode()
    if not text.startswith('{"S":') or text[5] in '"tn':
        return None
    return Decimal(text[5:-1])


TestRankedIndex = RankedIndexMachine.TestCase
TestRankedIndex.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)
