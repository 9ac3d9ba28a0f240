"""Checks that the changelog, the table, all nodes and this machine's local stores have the same rows."""

from __future__ import annotations

from contextlib import ExitStack

from storekeeper.apps.registry import APPS
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.changelog.scan import Changelog
from storekeeper.clock import SystemClock
from storekeeper.delta_files import is_table
from storekeeper.errors import SnapshotDamagedError
from storekeeper.generations.live import live_store, live_topology, store_in
from storekeeper.snapshots.proof import prove
from storekeeper.snapshots.settings import SnapshotSettings
from storekeeper.snapshots.values import values_of
from storekeeper.snapshots.verified_version import verified_version
from storekeeper.verification.check_verdict import CheckVerdict
from storekeeper.verification.copies import Copy, verify_copies
from storekeeper.verification.local_copies import LocalCopies
from storekeeper.verification.node_copies import NodeCopies
from storekeeper.verification.snapshot_copies import SnapshotCopies


def verify_store(store: str, settings: SnapshotSettings) -> CheckVerdict:
    """The verdict on a store's copies.

    Raises:
        StoreUnavailableError: nodes are named, and one of them doesn't answer.
        ChangelogError: the changelog can't be read.
    """
    spec, live = live_store(store, settings)
    topic = spec.changelog_topic
    snapshot, flaws = _snapshot(spec, settings)
    # Right after a hand-over the newest snapshot is still of the previous generation, whose changelog may be gone.
    comparable = snapshot if snapshot is not None and snapshot.proof.manifest.changelog_topic == topic else None
    with ExitStack() as stack:
        changelog = Changelog(settings.kafka, topic)
        nodes = stack.enter_context(NodeCopies(list(settings.node_addresses.values()), settings.credentials))
        members = nodes.members() if settings.node_addresses else {}
        local = _local_copies(spec, live, changelog)

        def copies_of(partition: int) -> list[Copy]:
            held = nodes.of_partition(members, store, topic, partition)
            held += [] if local is None else local.of_partition(partition)
            return held if comparable is None else [*comparable.of_partition(partition), *held]

        found = verify_copies(changelog, copies_of)
    reasons = (*flaws, *([] if local is None else local.flaws), *found.reasons)
    if not found.compared and not reasons:
        nodes_are = "no node holds the store" if settings.node_addresses else "no node is named (STOREKEEPER_PEERS)"
        reasons = (f"there is nothing to compare: no snapshot of this generation, and {nodes_are}",)
    details = {
        "rows": found.rows,
        "compared": found.compared,
        "differing": found.differing,
        "superseded": found.superseded,
        "topic": topic,
        "table_version": None if snapshot is None else snapshot.proof.version,
    }
    return CheckVerdict("verify", store, not reasons, reasons, SystemClock().now_ms(), details)


def _local_copies(spec: StoreSpec, live: AppSettings, changelog: Changelog) -> LocalCopies | None:
    """The local stores of the store's tasks; None if its app is no topology."""
    app = APPS[spec.app]
    if app.describe is None:
        return None
    stores = [one for sub in live_topology(app, live).sub_topologies for one in sub.stores if one.name == spec.name]
    root = live.state_dir / app.name / f"gen-{live.generation}"
    return LocalCopies(stores[0], root, changelog, SystemClock()) if stores else None


def _snapshot(spec: StoreSpec, settings: SnapshotSettings) -> tuple[SnapshotCopies | None, tuple[str, ...]]:
    """The snapshot in the store's table, None if there is none to compare; and the table's flaws."""
    path = settings.delta_table(spec.table_name)
    try:
        verified = verified_version(path)
        if verified is None:
            return None, ((f"table {path.name} at {path} was not written by a snapshot",) if is_table(path) else ())
        values = values_of(store_in(verified.manifest, spec, settings), settings)
        snapshot = SnapshotCopies(path, prove(path, verified, values))
    except SnapshotDamagedError as error:
        return None, (str(error),)
    return snapshot, snapshot.flaws
