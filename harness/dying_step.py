"""A step that is killed at a named place: `python -m harness.dying_step <place> generation …`.

A place is `before:<mark>` or `after:<mark>`: the step dies right before or after it writes that into the journal. A
mark is the phase of the hand-over, or `DONE` when it has ended; without one, the state of the generation on its way.
"""

from __future__ import annotations

import os
import signal
import sys

from storekeeper.cli.entry import main
from storekeeper.generations.journal import Journal, JournalFile

PLACES_OF_SEED = ("after:PLANNED", "before:SEEDED", "after:SEEDED", "before:STARTED")
PLACES_OF_TRANSFER = (
    *("before:BEGUN", "after:BEGUN", "before:WAITING", "after:WAITING", "before:ALIGNING"),
    *("after:ALIGNING", "before:ALIGNED", "after:ALIGNED", "before:DONE"),
)


def mark(journal: Journal, before: Journal | None) -> str:
    """What is written down."""
    if journal.transfer is not None:
        return journal.transfer.phase.value
    if before is not None and before.transfer is not None:
        return "DONE"
    return "NONE" if journal.candidate is None else journal.candidate.state.value


def die_at(place: str) -> None:
    """Sees to it that this process is killed there."""
    when, _, wanted = place.partition(":")
    write = JournalFile.write

    def dying(self: JournalFile, journal: Journal) -> None:
        here = mark(journal, self.read()) == wanted
        if here and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        write(self, journal)
        if here:
            os.kill(os.getpid(), signal.SIGKILL)

    JournalFile.write = dying  # type: ignore[method-assign]


if __name__ == "__main__":
    die_at(sys.argv.pop(1))
    main()
