"""How replicas are dealt to workers, and what travels between node and worker."""

from __future__ import annotations

import queue
from pathlib import Path
from types import SimpleNamespace

import pytest

from storekeeper.changelog.listener import logging_listener
from storekeeper.clock import ManualClock
from storekeeper.kafka.connection import Kafka
from storekeeper.node.replicas.cold_restore import (
    ColdReport,
    ColdRequest,
    ColdRestoreSettings,
    WorkerColdRestore,
    spread,
)
from storekeeper.node.replicas.replica import Replica
from storekeeper.node.replicas.replica_storage import MemoryStorage
from storekeeper.protocol.replica_states import ReplicaId
from storekeeper.snapshots.seed_tables import SeedTables
from tests.node.replicas.recording import log_of


def replica_behind(partition: int, records: int) -> Replica:
    clock = ManualClock()
    replica = Replica(
        ReplicaId("s", partition),
        "t",
        storage=MemoryStorage(),
        clock=clock,
        listener=logging_listener(clock),
    )
    replica.open(log_of(0, records))
    return replica


@pytest.mark.parametrize(
    ("behind", "groups", "expected"),
    [
        ([100, 100, 100, 100], 2, [[0, 2], [1, 3]]),
        ([10, 500, 20, 30], 2, [[1], [3, 2, 0]]),
        ([5], 4, [[0]]),
        ([], 2, []),
    ],
)
def test_work_is_spread_evenly(behind: list[int], groups: int, expected: list[list[int]]) -> None:
    replicas = [replica_behind(partition, records) for partition, records in enumerate(behind)]
    assert [[entry.replica_id.partition for entry in group] for group in spread(replicas, groups)] == expected


@pytest.mark.parametrize("seeds", [None, SeedTables("s3://lake/delta", "/run/seals")])
def test_messages_come_back(seeds: SeedTables | None) -> None:
    request = ColdRequest(
        "/x", Kafka("b:1", Path("/k.properties"), cluster="till-team.query"), [("rewards", 2, "topic")], seeds
    )
    assert ColdRequest.decode(request.encode()) == request
    report = ColdReport("rewards", 2, 100, 7)
    assert ColdReport.decode(report.encode()) == report


def test_only_replicas_far_behind_are_taken(tmp_path: Path) -> None:
    cold = WorkerColdRestore(tmp_path, Kafka("b:1"), ColdRestoreSettings(threshold_records=100))
    replica = replica_behind(0, 100)
    assert cold.takes(replica, 100)
    assert not cold.takes(replica, 99)


@pytest.mark.parametrize("command", ["/nowhere/python", "/bin/echo"])
def test_what_no_worker_could_take_or_one_that_talks_nonsense_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr("storekeeper.node.replicas.cold_restore.sys", SimpleNamespace(executable=command))
    cold = WorkerColdRestore(tmp_path, Kafka("b:1"), ColdRestoreSettings(threshold_records=1))
    replica = replica_behind(0, 100)
    for _ in range(2):
        given_back: queue.SimpleQueue[Replica] = queue.SimpleQueue()
        assert cold.takes(replica, 100)
        cold.restore([replica], given_back.put)
        assert given_back.get(timeout=30) is replica
    assert not cold.takes(replica, 100), "it was tried twice in vain: the node restores it itself"
    cold.close()
