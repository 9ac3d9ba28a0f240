"""Checks that the changelog, the table, all nodes and this machine's local stores have the same rows."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2

from storekeeper.apps.registry import APPS
from storekeeper.apps.settings import AppSettings, SnapshotSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.changelog.restore import LogState, RestoreAction, plan_restore
from storekeeper.changelog.scan import Changelog
from storekeeper.client.answers import failure_of
from storekeeper.client.credentials import Credentials
from storekeeper.clock import Clock, SystemClock
from storekeeper.engine.local_store import position_of
from storekeeper.engine.runtime.topics import Topics
from storekeeper.errors import SnapshotDamagedError, StorageError, StoreCorruptedError, StoreUnavailableError
from storekeeper.generations.live import live_store, live_topology, store_in
from storekeeper.locations import Location
from storekeeper.snapshots.columns import PLACE_COLUMNS, snapshot_schema, values_of
from storekeeper.snapshots.proof import PartitionContent, SnapshotProof, prove, read_rows
from storekeeper.snapshots.seal import SealedTable
from storekeeper.stores.rocksdb_sealed import SealedView
from storekeeper.stores.row_digest import bucket_of, entry_hash, from_hex, moved, row_hash
from storekeeper.topology.store import StoreBackend
from storekeeper.topology.task_stores import rows_as_logged
from storekeeper.topology.topology_store import TopologyStore
from storekeeper.verification.check_verdict import CheckVerdict
from storekeeper.verification.claims import wrong_claims
from storekeeper.verification.copies import Copy, Held, differing_buckets, of_snapshot_row, of_stored_row, verify_copies
from storekeeper.verification.notices import ChangelogNotices

_TRIES = 3
"""A running task may replace files while they are read."""


@dataclass
class LocalCopies:
    """The local stores of one store's tasks on this machine.

    Attributes:
        spec: the store.
        root: the folder of its generation's local stores.
        changelog: the store's changelog.
        clock: for the age of stores.
        flaws: stores that can't be compared because they are damaged or changed, one sentence each.
    """

    spec: TopologyStore
    root: Path
    changelog: Changelog
    clock: Clock
    flaws: list[str] = field(default_factory=list)

    @property
    def not_compared(self) -> list[str]:
        """Rows of tasks that no file has, in words."""
        backend = self.spec.options.backend
        return [] if backend == StoreBackend.ROCKSDB else [f"the rows of tasks, which backend {backend} keeps"]

    def of_partition(self, partition: int) -> list[Copy]:
        """The copies of a partition. One that its task would empty before it reads on is none."""
        copies = []
        for folder in sorted(self.root.glob(f"*/{partition}/{self.spec.name}")):
            copy = self._tried(folder, partition)
            if copy is not None:
                copies.append(copy)
        return copies

    def _tried(self, folder: Path, partition: int) -> Copy | None:
        for left in reversed(range(_TRIES)):
            try:
                return self._copy(folder, partition)
            except (StorageError, StoreCorruptedError) as error:
                if not left:
                    self.flaws.append(f"{self._name(folder)}, partition {partition}: {error}")
        return None

    def _copy(self, folder: Path, partition: int) -> Copy | None:
        with tempfile.TemporaryDirectory() as scratch:
            view = SealedView(folder, self.spec.name, Path(scratch))
            try:
                position = position_of(view)
                if position is None:
                    return None
                hashes = {key: entry_hash(key, value) for key, value in rows_as_logged(self.spec, view)}
            finally:
                view.close()
        checkpoint, own_end = position
        facts, (first, end) = self.changelog.facts, self.changelog.committed(partition)
        log = LogState(facts.topic, facts.topic_id, partition, first, end, facts.delete_retention_ms)
        behind_ms = self.clock.now_ms() - checkpoint.whole_at_ms
        if plan_restore(checkpoint, empty=False, log=log, behind_ms=behind_ms).action is not RestoreAction.RESUME:
            return None
        holder = self._name(folder)

        def held(_: Mapping[bytes, int]) -> Held:
            excused = self._excused(partition, checkpoint.offset, hashes)
            compared = {key: entry for key, entry in hashes.items() if key not in excused}
            return Held(own_end, compared, lambda key: key not in excused)

        return Copy(holder, own_end, len(hashes), moved(0, added=sum(hashes.values()), removed=0), held)

    def _name(self, folder: Path) -> str:
        return f"local store {folder.parent.parent.name}/{self.spec.name}"

    def _excused(self, partition: int, start: int, hashes: Mapping[bytes, int]) -> set[bytes]:
        """The keys whose rows are right although they aren't those at the store's offset.

        That offset is the least at which its last batch can end. If a clean-up wrote at the same time, records of the
        batch lie behind it, and the store gets the clean-up's records with the next batch.
        """
        excused = set()
        for record in self.changelog.scan(partition, start, self.changelog.committed(partition)[1]):
            key = record.key or b""
            logged = None if record.value is None else entry_hash(key, record.value)
            if record.is_of_cleanup or logged == hashes.get(key):
                excused.add(key)
        return excused


_ASKED_BUCKETS = 8
_MISDIRECTED = 421
_UNKNOWN_CALLER = (401, 403)
_TIMEOUT_S = 120.0


class NodeCopies:
    """The nodes of a cluster, by their addresses. A context manager. Not thread-safe.

    Args:
        addresses: of some nodes; the others are learnt from them.
        credentials: sent to them.
        transport: replaces the network.
    """

    def __init__(
        self, addresses: Sequence[str], credentials: Credentials, *, transport: httpx2.BaseTransport | None = None
    ) -> None:
        self._addresses = list(addresses)
        self._http = httpx2.Client(
            timeout=_TIMEOUT_S,
            trust_env=False,
            transport=transport,
            verify=credentials.ssl_context() if any(address.startswith("https") for address in addresses) else True,
        )
        self._credentials = credentials

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def members(self) -> dict[str, str]:
        """Name and address of every node in the first answer.

        Raises:
            StoreUnavailableError: no node answers.
        """
        reasons = []
        for address in self._addresses:
            try:
                listed = self._get(address, "/state/cluster")
            except httpx2.HTTPError as error:
                reasons.append(f"{address}: {failure_of(error, _TIMEOUT_S).reason}")
                continue
            return {member["name"]: member["address"] for member in listed["members"]}
        msg = f"no query node answers ({'; '.join(reasons) or 'none is named'}): see `storekeeper status`"
        raise StoreUnavailableError(msg)

    def of_partition(self, members: Mapping[str, str], store: str, topic: str, partition: int) -> list[Copy]:
        """The replicas of a partition that follow `topic`.

        Raises:
            StoreUnavailableError: a node doesn't answer.
        """
        return [
            copy
            for name, address in members.items()
            if (copy := self._copy(name, address, f"/state/digest/{store}/{partition}", topic)) is not None
        ]

    def _copy(self, name: str, address: str, path: str, topic: str) -> Copy | None:
        answer = self._asked(name, address, path)
        if answer is None or answer["topic"] != topic:
            return None
        buckets = list(map(from_hex, answer["buckets"]))

        def held(ours: Mapping[bytes, int]) -> Held:
            buckets_to_ask = differing_buckets(buckets, ours)[:_ASKED_BUCKETS]
            query = "&".join(f"bucket={number}" for number in buckets_to_ask)
            now = self._asked(name, address, f"{path}?{query}") or {"offset": 0, "entries": []}
            entries = {_decoded(key): from_hex(entry) for key, entry in now["entries"]}
            return Held(now["offset"], entries, lambda key: bucket_of(key) in buckets_to_ask)

        digest = from_hex(answer["digest"])
        return Copy(f"node {name}", answer["offset"], answer["rows"], digest, held, of_stored_row)

    def _asked(self, name: str, address: str, path: str) -> Any:
        try:
            return self._get(address, path)
        except httpx2.HTTPStatusError as error:
            if error.response.status_code == _MISDIRECTED:
                return None
            status = error.response.status_code
            remedy = "name a token file that it knows" if status in _UNKNOWN_CALLER else "wait until it is ready"
            msg = f"node {name} doesn't show its rows (status {status}): {remedy}"
            raise StoreUnavailableError(msg) from error
        except httpx2.HTTPError as error:
            msg = f"node {name} at {address} {failure_of(error, _TIMEOUT_S).reason}: see `storekeeper status`"
            raise StoreUnavailableError(msg) from error

    def _get(self, address: str, path: str) -> Any:
        answer = self._http.get(f"{address}{path}", headers=self._credentials.headers())
        answer.raise_for_status()
        return answer.json()


def _decoded(key: str) -> bytes:
    return base64.urlsafe_b64decode(key + "=" * (-len(key) % 4))


@dataclass(frozen=True, slots=True)
class SnapshotCopies:
    """What a table shows.

    Attributes:
        path: the table's folder.
        proof: what was found in it.
    """

    path: Location
    proof: SnapshotProof

    @property
    def flaws(self) -> tuple[str, ...]:
        """The flaws of the table itself: one sentence each; keys masked."""
        return tuple(map(self.told, self.proof.flaws))

    def told(self, flaw: str) -> str:
        """A flaw, with the table that has it."""
        return f"table {self.path.name}, version {self.proof.version}: {flaw}"

    def of_partition(self, partition: int) -> list[Copy]:
        """The copy of a partition; none, if the table's columns are too different to be read."""
        if self.proof.partitions is None:
            return []
        content = self.proof.partitions.get(partition, PartitionContent())
        offset = self.proof.manifest.changelog_offsets.get(partition, 0)

        def held(_: Mapping[bytes, int]) -> Held:
            hashes, places = self._rows(partition)
            return Held(offset, hashes, places=places)

        holder = f"snapshot {self.proof.version}"
        return [Copy(holder, offset, content.rows, content.digest, held, of_snapshot_row)]

    def _rows(self, partition: int) -> tuple[dict[bytes, int], dict[bytes, int]]:
        """The hashes of a partition's rows, and the offsets of their records, by key."""
        hashes, places = {}, {}
        for batch in read_rows(self.path, self.proof.version, snapshot_schema({})):
            columns = (batch[name].to_pylist() for name in PLACE_COLUMNS)
            for number, offset, timestamp_ms, key, value in zip(*columns, strict=True):
                if number == partition and None not in (offset, timestamp_ms, key, value):
                    hashes[key], places[key] = row_hash(key, value, offset, timestamp_ms), offset
        return hashes, places


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
        notices = ChangelogNotices(len(changelog.partitions), spec.kind)
        if snapshot is not None:
            topics, now_ms = Topics(settings.kafka), SystemClock().now_ms()
            claims = wrong_claims(snapshot.proof.manifest, spec, live, topics, now_ms=now_ms)
            flaws = (*flaws, *map(snapshot.told, claims))

        def copies_of(partition: int) -> list[Copy]:
            held = nodes.of_partition(members, store, topic, partition)
            held += [] if local is None else local.of_partition(partition)
            return held if comparable is None else [*comparable.of_partition(partition), *held]

        verdict = verify_copies(changelog, copies_of, notices.observed)
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
        "notices": notices.sentences,
        "not_compared": [] if local is None else local.not_compared,
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
