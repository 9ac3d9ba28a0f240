"""A wrong copy is set aside on demand, by the node that has it or while its app is stopped, and nothing is deleted."""

from __future__ import annotations

import time
from pathlib import Path

import httpx2
import pytest

from storekeeper.apps.settings import AppSettings
from storekeeper.client.credentials import Credentials
from storekeeper.clock import SystemClock
from storekeeper.engine.runtime.lease import Lease
from storekeeper.errors import ConfigurationError, StoreUnavailableError
from storekeeper.node.security.cluster_secret import load_cluster_secret
from storekeeper.node.security.hop import HopVerifier
from storekeeper.verification.node_copies import NodeCopies
from storekeeper.verification.repair import repaired_app, repaired_node


@pytest.fixture
def settings(tmp_path: Path) -> AppSettings:
    return AppSettings(run_dir=tmp_path, kafka_bootstrap="127.0.0.1:1")


class Asked:
    """A node that answers requests which are signed for it."""

    def __init__(self, settings: AppSettings, status: int = 202) -> None:
        self.verifier = HopVerifier("a", load_cluster_secret(settings.cluster_secret_file), SystemClock())
        self.status = status
        self.repaired: list[str] = []

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/state/cluster":
            return httpx2.Response(200, json={"members": [{"name": "a", "address": "http://a"}]})
        headers = {name.encode(): value.encode() for name, value in request.headers.items()}
        self.verifier.verify(request.method, request.url.raw_path, headers)
        self.repaired.append(request.url.path)
        return httpx2.Response(
            self.status, json={"detail": "the rows may be the last copy"} if self.status >= 400 else None
        )

    def nodes(self) -> NodeCopies:
        return NodeCopies(["http://a"], Credentials(), transport=httpx2.MockTransport(self.answer))


def test_a_node_is_asked_by_the_clusters_secret(settings: AppSettings) -> None:
    asked = Asked(settings)
    with asked.nodes() as nodes:
        sentences = repaired_node(nodes, "a", "rewards", [2, 5], settings)
    assert asked.repaired == ["/internal/repair/rewards/2", "/internal/repair/rewards/5"]
    assert sentences[0] == "node a, partition 2: its rows were set aside, and are restored from the changelog"


def test_a_node_that_refuses_is_told(settings: AppSettings) -> None:
    asked = Asked(settings, 503)
    with (
        asked.nodes() as nodes,
        pytest.raises(
            StoreUnavailableError,
            match="set partition 2 of rewards aside: the rows may be the last copy",
        ),
    ):
        repaired_node(nodes, "a", "rewards", [2], settings)


def test_local_stores_are_moved_while_the_app_is_stopped_and_only_then(settings: AppSettings) -> None:
    folder = settings.state_dir / "pos" / "gen-1" / "slot" / "0" / "rewards"
    folder.mkdir(parents=True)
    (folder / "CURRENT").write_bytes(b"rows")
    for name in ("pos", "pos@gen-1"):
        lease = Lease(settings.lease_file(name), clock=SystemClock(), wait=time.sleep)
        lease.acquire(0)
        with pytest.raises(ConfigurationError, match=r"pos runs.*storekeeper app stop pos"):
            repaired_app([folder], "pos", settings)
        assert (folder / "CURRENT").exists()
        lease.release()
    (sentences,) = repaired_app([folder], "pos", settings)
    (moved,) = folder.parent.iterdir()
    assert moved.name.startswith("rewards.corrupt-")
    assert (moved / "CURRENT").read_bytes() == b"rows"
    assert moved.name in sentences
