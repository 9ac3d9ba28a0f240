"""A plan of a clean-up, for tests."""

from __future__ import annotations

from storekeeper.cleanup.cleanup_plan import CleanupOptions, CleanupPlan
from storekeeper.cleanup.expiry import no_ages

ID = "20260101T000000000Z"
PLAN = CleanupPlan(
    cleanup_id=ID,
    store="prices",
    topic="t",
    topic_id="id",
    options=CleanupOptions(5),
    created_ms=10,
    cutoff_ms=5,
    ends={0: 3, 1: 4},
    rows=1000,
    size_bytes=2000,
    expired_rows=10,
    expired_bytes=20,
    ages=no_ages(),
    sample=(),
    undo_ms=1000,
)
