"""Whether a range of a log still has all of its records, by its offsets alone."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from storekeeper.changelog.headers import ChangelogHeaders
from storekeeper.changelog.log_record import CleanupAction, cleanup_headers
from storekeeper.changelog.scan import is_whole
from tests.changelog.messages import Record


@dataclass
class Log:
    """Records and marks as writers leave them. A mark takes an offset, and no reader sees it."""

    written: list[Record] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)
    end: int = 0

    def record(self, batch: int, *, of_cleanup: bool = False) -> int:
        headers = ChangelogHeaders(1, batch, 1, {}).encode()
        if of_cleanup:
            headers = cleanup_headers(headers, "c", CleanupAction.DELETE, 1)
        self.written.append(Record(self.end, b"k", b"v", record_headers=tuple(headers)))
        self.end += 1
        return self.end - 1

    def mark(self, offsets: list[int], *, commits: bool) -> None:
        self.end += 1
        self.committed += offsets if commits else []

    def is_whole_without(self, *removed: int) -> bool:
        written = [one for one in self.written if one.at not in removed]
        committed = sorted({*self.committed} - {*removed})
        return is_whole(written, committed, 0, self.end)


def batches(drawn: random.Random) -> Log:
    """An app's transactions, some of which are aborted and run again."""
    log = Log()
    for batch in range(drawn.randrange(1, 5)):
        for commits in [True] if drawn.random() < 0.6 else [False, True]:
            log.mark([log.record(batch) for _ in range(drawn.randrange(1, 4))], commits=commits)
    return log


def overlapping(drawn: random.Random) -> Log:
    """Transactions of an app, and of a clean-up that overlap them."""
    log, batch = Log(), 0
    open_of: dict[bool, list[int]] = {False: [], True: []}
    for _ in range(drawn.randrange(4, 16)):
        of_cleanup = drawn.random() < 0.4
        if open_of[of_cleanup] and drawn.random() < 0.4:
            log.mark(open_of[of_cleanup], commits=True)
            open_of[of_cleanup] = []
            batch += not of_cleanup
        else:
            open_of[of_cleanup].append(log.record(0 if of_cleanup else batch, of_cleanup=of_cleanup))
    for left in filter(None, open_of.values()):
        log.mark(left, commits=True)
    return log


@pytest.mark.parametrize("seed", range(300))
def test_a_range_that_lacks_a_record_is_never_whole(seed: int) -> None:
    drawn = random.Random(seed)
    log = batches(drawn)
    assert log.is_whole_without()
    for one in (log, overlapping(drawn)):
        assert not one.is_whole_without(drawn.choice(one.committed))
        assert not one.is_whole_without(*drawn.sample(one.committed, drawn.randrange(1, len(one.committed) + 1)))


def test_an_empty_range_is_whole_and_one_of_unknown_offsets_is_not() -> None:
    assert is_whole([], [], 5, 5)
    assert not is_whole([], [], 5, 6)
    log = Log()
    log.mark([log.record(0)], commits=True)
    assert is_whole(log.written, log.committed, 0, log.end)
    assert not is_whole(log.written, log.committed, 0, log.end + 1)
