"""Heartbeats as they travel."""

from __future__ import annotations

import pytest

from storekeeper.node.cluster.heartbeat import Heartbeat, HeartbeatError, ReplicaReport, opened, signed
from storekeeper.protocol.replica_states import ReplicaId, ReplicaRole, ReplicaState

SECRET = b"s" * 32
REPORT = ReplicaReport(ReplicaId("rewards", 3), ReplicaRole.STANDBY, ReplicaState.RUNNING, True, 42, 0, 17, 45)
HEARTBEAT = Heartbeat("a", "http://127.0.0.1:18101", "r1", 5, 6, 7, replicas=(REPORT,), topics={"log": "id-1"})


def test_what_is_signed_is_read_back() -> None:
    value = HEARTBEAT.encode()
    assert opened(SECRET, b"a", value, signed(SECRET, value)) == HEARTBEAT


@pytest.mark.parametrize(
    ("key", "value", "secret"),
    [
        (b"a", HEARTBEAT.encode(), b"another cluster's secret, as long"),
        (b"b", HEARTBEAT.encode(), SECRET),
        (None, HEARTBEAT.encode(), SECRET),
        (b"a", b"", SECRET),
        (b"a", b"[]", SECRET),
        (b"a", b"{}", SECRET),
        (b"a", HEARTBEAT.encode().replace(b'"a"', b'"../a"', 1), SECRET),
        (b"a", HEARTBEAT.encode().replace(b"RUNNING", b"WALKING"), SECRET),
        (b"a", HEARTBEAT.encode().replace(b'{"log":"id-1"}', b"[]"), SECRET),
        (b"a", b'{"name":"a",' + b" " * (1 << 20) + HEARTBEAT.encode()[1:], SECRET),
    ],
)
def test_what_is_no_heartbeat_of_this_cluster_is_refused(key: bytes | None, value: bytes, secret: bytes) -> None:
    with pytest.raises(HeartbeatError):
        opened(SECRET, key, value, signed(secret, value))


def test_a_changed_heartbeat_is_refused() -> None:
    value = HEARTBEAT.encode()
    signature = signed(SECRET, value)
    with pytest.raises(HeartbeatError):
        opened(SECRET, b"a", value.replace(b"18101", b"18102"), signature)
    with pytest.raises(HeartbeatError):
        opened(SECRET, b"a", value, None)
