"""Checks a store's rows and bytes against earlier days."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson

from spark_apps.generations.live import live_store
from spark_apps.maintenance.settings import MaintenanceSettings
from state.clock import SystemClock
from state.maintenance.check_verdict import CheckVerdict, verdict_folder
from state.maintenance.expiry import content_of
from state.maintenance.growth import GrowthLimits, Size, growth_of
from state.maintenance.kafka_log import Changelog

CHECK = "growth"


def growth_verdict(store: str, settings: MaintenanceSettings) -> CheckVerdict:
    """The verdict on a store's growth.

    Raises:
        ChangelogError: the changelog can't be read.
    """
    now = measured(store, settings)
    sizes = [*_sizes(verdict_folder(settings.run_dir, CHECK, store)), now]
    found = growth_of(sizes, GrowthLimits(settings.growth_rows_per_day, settings.growth_bytes_per_day))
    details: dict[str, object] = {"rows": now.rows, "size_bytes": now.size_bytes}
    if found is not None:
        details |= {
            "rows_per_day": found.rows_per_day,
            "bytes_per_day": found.bytes_per_day,
            "usual_rows_per_day": found.usual_rows_per_day,
        }
    reasons = () if found is None else found.reasons
    return CheckVerdict(CHECK, store, not reasons, reasons, now.at_ms, details)


def measured(store: str, settings: MaintenanceSettings) -> Size:
    """The store's current size by its changelog: exact, and independent of any node."""
    now_ms = SystemClock().now_ms()
    rows = size_bytes = 0
    spec, _ = live_store(store, settings)
    changelog = Changelog(settings.kafka, spec.changelog_topic)
    for partition in changelog.partitions:
        content = content_of(changelog.scan(partition, *changelog.committed(partition)), cutoff_ms=0, now_ms=now_ms)
        rows, size_bytes = rows + content.rows, size_bytes + content.size_bytes
    return Size(now_ms, rows, size_bytes)


def _sizes(folder: Path) -> Iterator[Size]:
    for path in sorted(folder.glob("*.json")):
        verdict = orjson.loads(path.read_bytes())
        yield Size(verdict["decided_at_ms"], verdict["details"]["rows"], verdict["details"]["size_bytes"])
