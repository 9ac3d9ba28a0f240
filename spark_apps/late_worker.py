"""Detects late Python workers: Spark waits ten seconds for one to connect, which can't be configured.

On a busy machine this can fail the first batch of a processor. A restarted query continues.
"""

from __future__ import annotations

WORKER_TRIES = 3
"""How often a query is started before a late worker counts as broken."""


def worker_was_late(error: object) -> bool:
    """Whether a late worker is why a query failed. `error` is the query's exception, its text or None."""
    return "Python worker failed to connect back" in str(error)
