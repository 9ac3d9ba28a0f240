"""What a snapshot costs by the size of its store and by how much of it has changed: `make bench-snapshot`.

For each size, a store's changelog gets a change of each row, and the first snapshot is taken. Then a batch changes a
share of the rows, spread over all keys, and the next one is taken. Measured are the append to the history, with the
reading of the changelog, the fold into the table of current rows, which is written whole, and in both of these what
belongs to the seals. A row's microseconds are of processor time: those of a changed row for the append, and of a row of
the table for the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.kept_store import KeptStore, Taken, run_sizes
from benchmarks.results import Measure

SHARES = (0.001, 0.01, 0.1, 1.0)


def measures_of(what: str, changed: int, rows: int, taken: Sequence[Taken]) -> Iterator[Measure]:
    """The measures of snapshots of one kind."""
    for name, per in (("append", changed), ("fold", rows), ("seal", rows)):
        spent = [getattr(one, name) for one in taken]
        yield Measure(f"{name}: {what}", "s", [one.seconds for one in spent], higher_is_better=False)
        unit = "us of processor a changed row" if name == "append" else "us of processor a row"
        each = [one.processor_s / per * 1e6 for one in spent]
        yield Measure(f"{name}: {what}", unit, each, higher_is_better=False)


def measure(store: KeptStore, runs: int) -> Iterator[Measure]:
    """All measures of a store."""
    size = f"{store.rows / 1e6:g} million rows"
    store.fill()
    _, first = store.snapshot()
    yield from measures_of(f"{size}, the first", store.rows, store.rows, [first])
    for share in SHARES:
        taken, changed = [], 0
        for _ in range(runs):
            changed = store.change(share)
            taken.append(store.snapshot()[1])
        yield from measures_of(f"{size}, {share * 100:g} % changed", changed, store.rows, taken)


if __name__ == "__main__":
    run_sizes("snapshot", __doc__, measure, {"shares": str(SHARES)})
