"""Serving nodes as real processes, and a changelog to follow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import httpx2

from harness import adjusted
from harness.broker import Broker
from harness.changelog_writer import KafkaChangelogWriter
from harness.forked import ForkedProcess, Starters
from harness.ports import free_ports
from harness.waiting import eventually
from storekeeper.changelog.headers import ChangelogHeaders
from storekeeper.node.security.no_tls import NO_TLS

HEADERS = ChangelogHeaders(1, 1, 1, {"pos": {0: (0, 100)}})
_READY_S = 180.0
"""A start takes two seconds of a processor; on a machine that is busy with other things, far longer than that."""
_EXIT_S = 120.0
_ANSWER_S = 60.0
_LAST_WORDS = 2000
COMPACTED = {"cleanup.policy": "compact"}


def write(broker: Broker, topic: str, rows: Iterable[tuple[bytes, bytes | None]]) -> None:
    """Appends rows to a changelog and waits until the broker has them."""
    with KafkaChangelogWriter(broker.bootstrap, topic) as writer:
        writer.write(rows, HEADERS)


@dataclass(slots=True)
class NodeProcess:
    """One node. `kill` and `stop` keep its state; `start` begins again with it.

    `prepare` has a process import everything ahead of its starts, for nodes that are to come and go quickly.
    """

    starters: ClassVar[Starters] = Starters()
    all_prepared: ClassVar[bool] = False
    """Whether all nodes are: tests save two seconds of a processor with each start."""

    name: str
    address: str
    environment: Mapping[str, str]
    log_path: Path
    constants: Mapping[str, object] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | ForkedProcess | None = field(default=None, repr=False)
    _prepared: bool = field(default=False, repr=False)
    _http: httpx2.Client | None = field(default=None, repr=False)

    def start(self) -> None:
        """Starts the process, as a fork of the prepared one if there is one, and returns at once."""
        words, variables = ["node", self.name], {**os.environ, **self.environment}  # noqa: TID251 - it needs PATH
        with self.log_path.open("ab") as log:
            if self._prepared or self.all_prepared:
                self._process = self.starters.of(self.constants).start(words, variables, log)
                return
            command = adjusted.command(self.constants, "storekeeper.cli.entry", words)
            self._process = subprocess.Popen([sys.executable, *command], env=variables, stdout=log, stderr=log)

    def prepare(self) -> None:
        """Its starts are forks of a process that has imported everything."""
        self._prepared = True
        self.starters.of(self.constants)

    def wait_ready(self, timeout_s: float = _READY_S) -> None:
        """Waits until every replica answers; fails at once if the process ends instead."""

        def ready() -> bool:
            assert self._process is not None, f"node {self.name} is not started"
            code = self._process.poll()
            assert code is None, f"node {self.name} has ended: {code}, {self.last_words}"
            return self.is_ready()

        eventually(ready, timeout_s, f"node {self.name} is ready")

    def is_ready(self) -> bool:
        """Whether `/readyz` says so."""
        return self.status("/readyz") == 200

    def status(self, path: str) -> int | None:
        """The status of a GET, None if the node does not answer."""
        try:
            return self.get(path).status_code
        except httpx2.TransportError:
            return None

    def get(self, path: str, **options: Any) -> httpx2.Response:
        """One GET."""
        if self._http is None:
            self._http = httpx2.Client(trust_env=False, verify=NO_TLS)
        return self._http.get(self.address + path, timeout=_ANSWER_S, **options)

    def answer(self, path: str, **options: Any) -> httpx2.Response:
        """The first answer to a GET that is not 503: a busy node may not reach another one in time."""

        def answered() -> httpx2.Response | None:
            found = self.get(path, **options)
            return None if found.status_code == httpx2.codes.SERVICE_UNAVAILABLE else found

        return eventually(answered, _ANSWER_S, f"{path} is answered")

    def value(self, key: str, store: str = "rewards") -> Any:
        """The value of a key, None if the node says that there is none. See `answer`."""
        answer = self.answer(f"/state/keyvalue/{store}/{key}")
        if answer.status_code == 404:
            assert answer.json()["type"] == "urn:storekeeper:problem:unknown-key"
            return None
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]

    def replicas(self) -> dict[int, dict[str, Any]]:
        """`/state/lag` by partition."""
        return {replica["partition"]: replica for replica in self.get("/state/lag").json()["replicas"]}

    @property
    def last_words(self) -> str:
        """The end of its log."""
        return self.log_path.read_text()[-_LAST_WORDS:]

    def events(self, name: str) -> list[str]:
        """The lines of its log with one event."""
        return [line for line in self.log_path.read_text().splitlines() if f'"event": "{name}"' in line]

    def wait_exit(self, timeout_s: float = _EXIT_S) -> int:
        """Waits for its end and returns the exit code."""
        assert self._process is not None
        code = self._process.wait(timeout=timeout_s)
        self._process = None
        return code

    def stop(self) -> int:
        """Ends it with TERM; returns the exit code."""
        return self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it with KILL."""
        self._signal(signal.SIGKILL)

    def close(self) -> None:
        """Kills it if it runs, and frees what asking it took."""
        self.kill()
        if self._http is not None:
            self._http.close()
            self._http = None

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    def _signal(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        self._process.send_signal(number)
        return self.wait_exit()


@contextmanager
def started(nodes: Sequence[NodeProcess]) -> Iterator[None]:
    """Starts nodes; they are killed when the block ends, however it does."""
    with ExitStack() as stack:
        for node in nodes:
            stack.callback(node.close)
            node.start()
        yield


def make_nodes(
    broker: Broker,
    folder: Path,
    served: str,
    /,
    names: Iterable[str] = ("a", "b"),
    constants: Any = None,
    **settings: object,
) -> list[NodeProcess]:
    """Nodes that are not started yet, with one run directory between them.

    Args:
        broker: their broker.
        folder: their run directory.
        served: the stores, as in `STOREKEEPER_STORES`.
        names: a node each.
        constants: a mapping; see `harness.adjusted`.
        settings: become `STOREKEEPER_<NAME>`.
    """
    names = list(names)
    addresses = {name: f"http://127.0.0.1:{port}" for name, port in zip(names, free_ports(len(names)), strict=True)}
    environment = {
        "STOREKEEPER_RUN_DIR": str(folder),
        "STOREKEEPER_KAFKA_BOOTSTRAP": broker.bootstrap,
        "STOREKEEPER_STORES": served,
        "STOREKEEPER_PEERS": ",".join(f"{name}={address}" for name, address in addresses.items()),
        **{f"STOREKEEPER_{name.upper()}": str(value) for name, value in settings.items()},
    }
    folder.mkdir(parents=True, exist_ok=True)
    return [NodeProcess(name, addresses[name], environment, folder / f"{name}.log", constants or {}) for name in names]
