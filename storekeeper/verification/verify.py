"""Checks that the changelog, the table, all nodes and this machine's local stores have the same rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from functools import partial

from storekeeper.apps.registry import APPS
from storekeeper.apps.settings import AppSettings, SnapshotSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.changelog.scan import Changelog
from storekeeper.clock import SystemClock
from storekeeper.engine.runtime.topics import Topics
from storekeeper.errors import ConfigurationError, SnapshotDamagedError, StorageError, TablesUnreachableError
from storekeeper.generations.live import live_store, live_topology, store_in
from storekeeper.snapshots.columns import values_of
from storekeeper.snapshots.history import newest_history
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.proof import prove
from storekeeper.snapshots.seal import SealedTable
from storekeeper.verification.check_verdict import CheckVerdict
from storekeeper.verification.claims import wrong_claims
from storekeeper.verification.copies import Copy, verify_copies
from storekeeper.verification.histories import HistoryCopy
from storekeeper.verification.local_copies import LocalCopies
from storekeeper.verification.node_copies import NodeCopies
from storekeeper.verification.notices import ChangelogNotices
from storekeeper.verification.repair import repaired_app, repaired_node
from storekeeper.verification.snapshot_copies import SnapshotCopies


def verify_store(store: str, settings: SnapshotSettings, *, repair: str | None = None) -> CheckVerdict:
    """The verdict on a store's copies. `repair` is the node, or the store's app, whose wrong copies are set aside to be
    restored. The verdict says so, and is that of before.

    Raises:
        ConfigurationError: the app that `repair` names runs, or `repair` names neither.
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
        _check_repairable(repair, spec.app, members)
        local = _local_copies(spec, live, changelog)
        notices = ChangelogNotices(len(changelog.partitions), spec.kind)
        claims = partial(
            wrong_claims, store=spec, settings=live, topics=Topics(settings.kafka), now_ms=SystemClock().now_ms()
        )
        if snapshot is not None:
            flaws = (*flaws, *map(snapshot.sentence, claims(snapshot.proof.manifest)))

        def copies_of(partition: int) -> list[Copy]:
            held = nodes.of_partition(members, store, topic, partition)
            held += [] if local is None else local.of_partition(partition)
            return held if comparable is None else [*comparable.of_partition(partition), *held]

        verdict = verify_copies(changelog, copies_of, notices.observed)
        table, compared = (None if one is None else one.proof.manifest for one in (snapshot, comparable))
        history, current = (SealedTable.of(settings, name) for name in (spec.history_name, spec.table_name))
        copy = HistoryCopy(history.path, changelog, values_of(spec, live), current.path, compared)
        is_alone = not flaws and current.read() is None
        flaws = (*flaws, *_history_flaws(history, copy, table, claims, is_alone=is_alone))
        repaired: list[str] = []
        if repair in members:
            partitions = [partition for holder, partition in verdict.wrong if holder == f"node {repair}"]
            repaired += repaired_node(nodes, repair, store, partitions, live)
        if repair == spec.app and local is not None:
            repaired += repaired_app(filter(None, map(local.folder_of, verdict.wrong)), spec.app, live)
    reasons = (*flaws, *([] if local is None else local.flaws), *verdict.reasons)
    if not verdict.compared and not reasons:
        nodes_are = "no node holds the store" if settings.node_addresses else "no node is named (`peers`)"
        reasons = (f"there is nothing to compare: no snapshot of this generation, and {nodes_are}",)
    details = {
        "rows": verdict.rows,
        "compared": verdict.compared,
        "differing": verdict.differing,
        "superseded": verdict.superseded,
        "topic": topic,
        "table_version": None if snapshot is None else snapshot.proof.version,
        "notices": [*nodes.notices, *notices.sentences],
        "set_aside": repaired,
        "not_compared": [] if local is None else local.not_compared,
    }
    return CheckVerdict("verify", store, not reasons, reasons, SystemClock().now_ms(), details)


def _check_repairable(holder: str | None, app: str, nodes: Collection[str]) -> None:
    if holder is not None and holder != app and holder not in nodes:
        known = ", ".join(sorted(nodes)) or "no node"
        msg = f"there is no node or app {holder!r} with copies of the store: name app {app}, or one of {known}"
        raise ConfigurationError(msg)


def _local_copies(spec: StoreSpec, live: AppSettings, changelog: Changelog) -> LocalCopies | None:
    """The local stores of the store's tasks; None if its app is no topology."""
    app = APPS[spec.app]
    if app.describe is None:
        return None
    stores = [one for sub in live_topology(app, live).sub_topologies for one in sub.stores if one.name == spec.name]
    root = live.state_dir / app.name / f"gen-{live.generation}"
    return LocalCopies(stores[0], root, changelog, SystemClock()) if stores else None


def _history_flaws(
    sealed: SealedTable,
    copy: HistoryCopy,
    snapshot: SnapshotManifest | None,
    claims: Callable[..., Iterator[str]],
    *,
    is_alone: bool,
) -> Iterator[str]:
    """How a store's history differs from its seal, its manifest and the changelog; and whether it or the table is gone.

    Args:
        sealed: the history.
        copy: the history beside the others.
        snapshot: the manifest of the table's newest snapshot; None without one.
        claims: tells what a manifest says and isn't so.
        is_alone: whether there is neither a table nor its seal.
    """
    history, table = sealed.path.name, copy.table.name
    try:
        sealed.current(whole=True)
        found = newest_history(sealed.path)
        if found is None:
            if snapshot is not None and snapshot.batch_ms:
                yield (
                    f"table {history} is gone, and table {table} was made from it: put it back with its seal, or begin "
                    f"another with `storekeeper snapshot create {table}`"
                )
            return
        yield from (f"table {history}, version {found.version}: {claim}" for claim in claims(found.manifest))
        if is_alone:
            yield f"table {table} is gone, and there is its history: `storekeeper snapshot create {table}` writes it"
        yield from copy.flaws()
    except TablesUnreachableError:
        raise
    except StorageError as error:
        yield str(error)


def _snapshot(spec: StoreSpec, settings: SnapshotSettings) -> tuple[SnapshotCopies | None, tuple[str, ...]]:
    """The snapshot in the store's table, None if there is none to compare; and the table's flaws.

    A table that differs from its seal is read all the same: what differs in it says what to do.
    """
    sealed = SealedTable.of(settings, spec.table_name)
    flaws: list[str] = []
    shown = None
    try:
        seal = sealed.current(whole=True)
        if seal is not None and not seal.writing:
            shown = seal.verified
    except SnapshotDamagedError as error:
        flaws.append(str(error))
    try:
        shown = shown or sealed.shown()
        if shown is None:
            return None, tuple(flaws)
        values = values_of(store_in(shown.manifest, spec, settings), settings)
        snapshot = SnapshotCopies(sealed.path, prove(sealed.path, shown, values))
    except SnapshotDamagedError as error:
        return None, (*flaws, str(error))
    return snapshot, (*flaws, *snapshot.flaws)
