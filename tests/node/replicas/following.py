"""Replicas that a follower follows while a test looks on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from storekeeper.clock import ManualClock, SystemClock
from storekeeper.node.replicas.follower import Follower
from storekeeper.node.replicas.replica import Replica
from storekeeper.node.replicas.replica_storage import RocksDBStorage
from storekeeper.protocol.replica_states import ReplicaId
from tests.node.replicas.fake_log import FakeLog
from tests.node.replicas.recording import RecordingListener


def make(storage: RocksDBStorage, clock: ManualClock, partitions: int = 1) -> list[Replica]:
    return [
        Replica(ReplicaId("rewards", partition), "t", storage=storage, clock=clock, listener=RecordingListener())
        for partition in range(partitions)
    ]


def rows(replica: Replica) -> dict[bytes, bytes]:
    with replica.scan(None, None) as found:
        return {key: row.value for key, row in found}


@contextmanager
def followed(replica: Replica, log: FakeLog) -> Iterator[None]:
    follower = Follower([replica], lambda: log, SystemClock())
    thread = threading.Thread(target=follower.run)
    thread.start()
    try:
        yield
    finally:
        follower.stop()
        thread.join()
