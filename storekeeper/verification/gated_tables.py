"""Checks that the quality gate's tables are as it has sealed them."""

from __future__ import annotations

from storekeeper.apps.registry import gated_tables
from storekeeper.apps.settings import AppSettings
from storekeeper.clock import SystemClock
from storekeeper.errors import SnapshotDamagedError
from storekeeper.snapshots.gated_seal import GatedTable
from storekeeper.verification.check_verdict import CheckVerdict


def verify_table(name: str, settings: AppSettings) -> CheckVerdict:
    """The verdict on a published table, and on what was decided on of its staged rows. Every sealed file is read.

    Args:
        name: the published table.
        settings: where the tables are.

    Raises:
        TablesUnreachableError: the store of the tables doesn't answer.
    """
    table, versions, reasons = gated_tables()[name], dict[str, int | None](), list[str]()
    for sealed in (GatedTable.staged(settings, table), GatedTable.published(settings, table)):
        try:
            seal = sealed.current(whole=True)
            versions[sealed.path.name] = None if seal is None else seal.version
        except SnapshotDamagedError as error:
            reasons.append(str(error))
    now_ms = SystemClock().now_ms()
    return CheckVerdict("verify", name, not reasons, tuple(reasons), now_ms, {"sealed_versions": versions})
