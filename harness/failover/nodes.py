"""Nodes behind proxies: each is reached by the others, and by clients that know the cluster, through its own proxy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.broker import Broker
from harness.failover.proxy import Network, Proxy
from harness.node_process import NodeProcess
from harness.ports import free_ports

STORE = "counters"
WINDOWS = "windows"
TROUBLED = "b"
_QUICK = {"storekeeper.node.cluster.replica_reconciler:ReconcilerSettings.handover_s": 1.0}


@dataclass(slots=True)
class Cluster:
    """Nodes by name. They know nothing of one another at the start: heartbeats tell them.

    Attributes:
        settings: more variables of each node.
        to_broker: what the troubled node reaches the broker through.
    """

    broker: Broker
    folder: Path
    topic: str
    network: Network
    to_broker: Proxy
    replicas: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    nodes: dict[str, NodeProcess] = field(default_factory=dict)
    proxies: dict[str, Proxy] = field(default_factory=dict)

    def add(self, name: str) -> NodeProcess:
        """Makes a node, which is not started yet, and its proxy."""
        port = free_ports(1)[0]
        proxy = self.proxies[name] = self.network.proxy(port)
        environment = {
            "STOREKEEPER_RUN_DIR": str(self.folder),
            "STOREKEEPER_KAFKA_BOOTSTRAP": (
                f"127.0.0.1:{self.broker.detour_port}" if name == TROUBLED else self.broker.bootstrap
            ),
            "STOREKEEPER_STORES": f"{STORE}={self.topic},{WINDOWS}={self.topic}-windows:window",
            "STOREKEEPER_PEERS": "",
            "STOREKEEPER_LISTEN_PORT": str(port),
            "STOREKEEPER_ADVERTISED_ADDRESS": proxy.address,
            "STOREKEEPER_CLUSTER": self.topic,
            "STOREKEEPER_REPLICAS": str(self.replicas),
            **self.settings,
        }
        node = NodeProcess(name, f"http://127.0.0.1:{port}", environment, self.folder / f"{name}.log", _QUICK)
        self.nodes[name] = node
        return node

    def addresses(self, *without: str) -> list[str]:
        """The nodes' own addresses, which no fault of the network is in front of."""
        return [node.address for name, node in self.nodes.items() if name not in without]

    def announced(self) -> list[str]:
        """The addresses through the proxies, as a client gets them."""
        return [proxy.address for proxy in self.proxies.values()]

    def close(self) -> None:
        """Kills what runs."""
        for node in self.nodes.values():
            node.close()


@contextmanager
def running_cluster(
    broker: Broker, folder: Path, topic: str, *names: str, settings: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """A cluster whose nodes are ready."""
    folder.mkdir(parents=True, exist_ok=True)
    with Network() as network:
        to_broker = network.proxy(broker.detour_target, broker.detour_port)
        cluster = Cluster(broker, folder, topic, network, to_broker, settings=settings or {})
        try:
            for name in names:
                cluster.add(name).start()
            for name in names:
                cluster.nodes[name].wait_ready()
            yield cluster
        finally:
            cluster.close()
