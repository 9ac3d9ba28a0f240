"""What the verification of a store's table and history costs: `make bench-verify`.

For each size, a store's changelog gets a change of each row, and then of a tenth of them, ten times, with a snapshot
after each. Measured is each part of what `storekeeper verify` does about these copies: every file of both folders
against its seal, the proof of the table's rows, the table against the changelog, and the history against the changelog
and the table. A row's microseconds are of processor time: of a row of the table, but of a record of the history for the
history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.kept_store import KeptStore, Spent, run_sizes
from benchmarks.results import Measure
from storekeeper.snapshots.as_of import HISTORY
from storekeeper.snapshots.proof import prove
from storekeeper.verification.copies import verify_copies
from storekeeper.verification.histories import HistoryCopy
from storekeeper.verification.snapshot_copies import SnapshotCopies

CHANGES = 10
SHARE = 0.1


def measure(store: KeptStore, runs: int) -> Iterator[Measure]:
    """All measures of a store."""
    size = f"{store.rows / 1e6:g} million rows"
    store.fill()
    snapshot, _ = store.snapshot()
    for _ in range(CHANGES):
        store.change(SHARE)
        snapshot, _ = store.snapshot()
    table, history = store.sealed(), store.sealed(HISTORY)
    shown = table.shown()
    assert shown is not None
    proof = prove(table.path, shown, store.values)
    copy = HistoryCopy(history.path, store.changelog, store.values, table.path, snapshot)
    records = round(store.rows * (1 + CHANGES * SHARE))

    def sound(*flaws: str) -> None:
        assert not flaws, flaws

    parts: dict[str, tuple[Callable[[], object], int]] = {
        "every file against its seal": (lambda: (table.current(whole=True), history.current(whole=True)), store.rows),
        "proof of the rows": (lambda: sound(*prove(table.path, shown, store.values).flaws), store.rows),
        "table against changelog": (
            lambda: sound(*verify_copies(store.changelog, SnapshotCopies(table.path, proof).of_partition).reasons),
            store.rows,
        ),
        "history against changelog and table": (lambda: sound(*copy.flaws()), records),
    }
    for name, (work, per) in parts.items():
        spent = []
        for _ in range(runs):
            spent.append(Spent())
            with spent[-1].adding():
                work()
        yield Measure(f"{name}: {size}", "s", [one.seconds for one in spent], higher_is_better=False)
        unit = "us of processor a record" if per == records else "us of processor a row"
        each = [one.processor_s / per * 1e6 for one in spent]
        yield Measure(f"{name}: {size}", unit, each, higher_is_better=False)


if __name__ == "__main__":
    run_sizes("verify", __doc__, measure, {"changes": CHANGES, "share": SHARE})
