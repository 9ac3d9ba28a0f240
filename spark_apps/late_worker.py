"""Whether Spark gave a Python process up: it waits ten seconds for one to connect, and that can't be set.

On a busy machine the first batch of a processor may fail of it, and a query that is begun again goes on.
"""

from __future__ import annotations

WORKER_TRIES = 3
"""How often a query is begun before a worker that is late counts as broken."""


def worker_was_late(error: object) -> bool:
    """Whether that is why a query failed. `error` is what the query told: an exception, its text or None."""
    return "Python worker failed to connect back" in str(error)
