"""`python -m spark_apps.maintenance verify`: the changelog, the newest snapshot and every node hold the same."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from spark_apps.generations.live import live_store
from spark_apps.maintenance.judged import judged
from spark_apps.maintenance.settings import MaintenanceSettings
from state.clock import SystemClock
from state.maintenance.check_verdict import CheckVerdict
from state.maintenance.copies import Copy
from state.maintenance.kafka_log import Changelog
from state.maintenance.node_copies import NodeCopies
from state.maintenance.verification import snapshot_copy, verify_copies
from state.snapshots.loaded import newest_snapshot

EXIT_DIFFERENT = 4


def verify(store: Annotated[str, typer.Argument(help="The store's name.")]) -> None:
    """Compare the copies of a store; exits 4 with the first differing keys if they aren't the same.

    Of a store that was split, those of all its parts.
    """
    judged(store, MaintenanceSettings.of_platform(), verified, EXIT_DIFFERENT)


def verified(store: str, settings: MaintenanceSettings) -> CheckVerdict:
    """The verdict on a store's copies.

    Raises:
        StoreUnavailableError: nodes are named, and one of them doesn't answer.
        ChangelogError: the changelog can't be read.
    """
    spec, _ = live_store(store, settings)
    path, topic = settings.delta_table(spec.table_name), spec.changelog_topic
    newest = newest_snapshot(path)
    # Right after a hand-over the newest snapshot is still of the generation before, whose changelog may be gone.
    manifest = newest if newest is not None and newest.changelog_topic == topic else None
    with ExitStack() as stack:
        changelog = Changelog(settings.kafka_bootstrap, topic)
        nodes = stack.enter_context(NodeCopies(list(settings.node_addresses.values()), settings.credentials))
        members = nodes.members() if settings.node_addresses else {}

        def copies_of(partition: int) -> list[Copy]:
            held = nodes.of_partition(members, store, topic, partition)
            return held if manifest is None else [snapshot_copy(path, manifest, partition), *held]

        found = verify_copies(changelog, copies_of)
    reasons = found.reasons
    if not found.compared:
        reasons = ("there is nothing to compare: no snapshot of this generation, and no node holds the store",)
    details = {"rows": found.rows, "compared": found.compared, "differing": found.differing, "topic": topic}
    return CheckVerdict("verify", store, not reasons, reasons, SystemClock().now_ms(), details)
