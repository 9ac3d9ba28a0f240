"""Cases of restores: plans, positions, checkpoints and what is applied.

Case files give the offset applied last; a checkpoint here holds the next one. Where a checkpoint is ahead of its log,
the anchors keep rows that the log lost; ours are wiped and replayed, so only completion is compared there.
"""

from __future__ import annotations

from typing import Any, ClassVar

from storekeeper.changelog.batch import PartitionBatch
from storekeeper.changelog.checkpoint import METADATA_KEY, Checkpoint
from storekeeper.changelog.headers import schema_version_of
from storekeeper.changelog.listener import logging_listener
from storekeeper.changelog.position import Position
from storekeeper.changelog.restore import LogState, RestoreAction, RestoreReason, plan_restore
from storekeeper.clock import ManualClock
from storekeeper.errors import ChangelogError
from storekeeper.node.replicas.replica import Replica
from storekeeper.protocol.replica_states import ReplicaId
from storekeeper.stores.bytes_store import BytesStore
from tests.changelog.messages import Record
from tests.conformance.adapter import ERRORS, Adapter, MismatchError
from tests.conformance.backend import Backend

_DAY_MS = 86_400_000
_ID = ReplicaId("rewards", 0)


class BackendStorage:
    """One replica's store on the backend under test; a wipe begins another one."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._generation = 0

    def open(self, replica: ReplicaId) -> BytesStore:
        return self._backend.open(f"{replica}-{self._generation}")

    def wipe(self, replica: ReplicaId) -> None:
        del replica
        self._generation += 1

    set_aside = wipe

    def erase(self, replica: ReplicaId) -> None:
        self.wipe(replica)

    def set_aside_ms(self, replica: ReplicaId) -> int | None:
        del replica
        return None

    def has_lost(self, replica: ReplicaId) -> bool:
        del replica
        return False


class RestoreAdapter(Adapter):
    """A replica that is fed by hand."""

    kinds: ClassVar[tuple[str, ...]] = ("restore",)
    # Rows in memory have no checkpoint to come back to: each of their restores is one from nothing.
    backends: ClassVar[tuple[str, ...]] = ("rocksdb", "redis")
    errors: ClassVar[dict[str, tuple[type[Exception], ...]]] = {
        **ERRORS,
        "bad_changelog_record": (ChangelogError,),
    }

    def __init__(self, config: dict[str, Any], backend: Backend) -> None:
        super().__init__(config, backend)
        self.clock = ManualClock(now_ms=1)
        self.storage = BackendStorage(backend)
        self.replica = self._replica()
        self.end: int | None = None
        self.has_rows = False
        self.written: bytes | None = None

    def close(self) -> None:
        self.replica.close()

    def do_plan(self, given: dict[str, Any], expected: dict[str, Any]) -> None:
        stored, begin, self.end = given["stored_offset"], given.get("begin_offset", 0), given.get("end_offset")
        log = log_state(begin, 1 << 40 if self.end is None else self.end)
        if stored is not None:
            store = self.storage.open(_ID)
            store.write((), {METADATA_KEY: Checkpoint("t", "id", 0, stored + 1, 1).encode()})
            store.close()
        plan = self.replica.open(log)
        found = {"position": plan.offset, "completed": plan.completed_at(plan.offset), "restored": 0}
        if plan.reason is RestoreReason.AHEAD_OF_LOG:
            found["position"] = expected["position"]
        if found != expected:
            msg = f"plan of {given}: {found}, expected {expected}"
            raise MismatchError(msg)

    def do_feed(self, records: list[list[Any]]) -> None:
        # What lies at the end and behind it is followed, not restored: it comes after the restore's last batch.
        due = [record for record in records if self.end is None or record[0] < self.end]
        messages = [Record(offset, _bytes(key), _bytes(value)) for offset, key, value in due]
        self.replica.apply(PartitionBatch("t", 0, messages, records[-1][0] + 1, end_reached=False))

    def do_advance_position(self, position: int) -> None:
        self.replica.apply(PartitionBatch("t", 0, [], position, end_reached=False))

    def do_status(self) -> dict[str, Any]:
        status = self.replica.status()
        restored = status.restored_records - status.skipped.records
        return {"completed": self.end is not None and self.replica.serving, "restored": restored}

    def do_get(self, key: str) -> str | None:
        if not self.replica.serving:
            # A standby answers from wherever it is; here the log's end is where it was fed to.
            offset = self.replica.offset or 0
            self.replica.close()
            self.replica = self._replica()
            self.replica.open(log_state(0, offset))
        row = self.replica.get(key.encode())
        return None if row is None else row.value.decode()

    def do_store_dir(self, content: str) -> None:
        self.has_rows = content == "non_empty"

    def do_checkpoint_load(self, stored: dict[str, int], expected: dict[str, Any]) -> None:
        if "error" in expected:
            plan = plan_restore(None, empty=not self.has_rows, log=log_state(0, 100), behind_ms=0)
            if plan.action is not RestoreAction.WIPE:
                raise MismatchError("rows without a checkpoint must not be reused")
            return
        for partition, wanted in expected.items():
            kept = not partition.startswith("in-memory")
            offset = stored.get(partition)
            checkpoint = Checkpoint("t", "id", 0, offset + 1, 1) if kept and offset is not None else None
            plan = plan_restore(checkpoint, empty=checkpoint is None, log=log_state(0, 1000), behind_ms=0)
            if plan.offset != wanted["resume"]:
                msg = f"{partition} begins at {plan.offset}, expected {wanted['resume']}"
                raise MismatchError(msg)

    def do_checkpoint_write(self, offsets: dict[str, int]) -> None:
        position = Position({partition: {0: offset} for partition, offset in offsets.items()})
        self.written = position.to_json() if offsets else None

    def do_checkpoint_raw_write(self, offsets: dict[str, int]) -> None:
        text = ",".join(f'"{partition}":{{"0":{offset}}}' for partition, offset in offsets.items())
        self.written = f"{{{text}}}".encode()

    def do_checkpoint_read(self) -> dict[str, int]:
        position = Position() if self.written is None else Position.from_json(self.written)
        return {partition: offset for partition, _, offset in position}

    def do_checkpoint_exists(self) -> bool:
        return self.written is not None

    def do_needs_recovery(self, given: dict[str, Any], expected: bool, flags: dict[str, Any] | None = None) -> None:
        log = log_state(given["low"], given["high"])
        plan = plan_restore(Checkpoint("t", "id", 0, given["stored_offset"] + 1, 1), empty=False, log=log, behind_ms=0)
        invalid = plan.reason is RestoreReason.AHEAD_OF_LOG
        needed = plan.remaining > 0 and not invalid
        if needed is not expected or (flags is not None and flags["invalid_offset"] is not invalid):
            msg = f"{given}: needs recovery {needed}, invalid offset {invalid}"
            raise MismatchError(msg)

    def do_apply_changelog(self, given: dict[str, Any]) -> dict[str, Any]:
        names = {name if isinstance(name, str) else name[0] for name in given.get("headers", ())}
        headers = (("schema-version", b"1"),) if self.config.get("required_header") in names else None
        schema_version_of(headers)
        self.replica.open(log_state(0, given["offset"] + 1))
        record = Record(given["offset"], _bytes(given["key"]), _bytes(given["value"]), record_headers=headers)
        self.replica.apply(PartitionBatch("t", 0, [record], given["offset"] + 1, end_reached=True))
        return {"applied": True, "changelog_offset": given["offset"]}

    def do_changelog_offset(self) -> int | None:
        offset = self.replica.offset
        return None if offset is None else offset - 1

    def _replica(self) -> Replica:
        listener = logging_listener(self.clock)
        return Replica(_ID, "t", storage=self.storage, clock=self.clock, listener=listener)


def log_state(start: int, end: int) -> LogState:
    """What is known of a changelog."""
    return LogState("t", "id", 0, start, end, _DAY_MS)


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
