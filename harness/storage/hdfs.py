"""HDFS: a name node and a data node, each a process of its own."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyspark
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError

from harness.ports import free_ports
from harness.storage.place import FETCHED
from harness.waiting import eventually
from storekeeper.ops.environment import inherited_environment
from storekeeper.ops.preflight import java_command

_JARS = FETCHED / "hdfs"
_SERVER = "org.apache.hadoop.hdfs.server"
_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--add-opens=java.base/java.lang=ALL-UNNAMED")
_PATIENCE_S = 600
_ADDRESSES = (
    "dfs.namenode.http-address",
    "dfs.datanode.address",
    "dfs.datanode.http.address",
    "dfs.datanode.ipc.address",
)


@dataclass(slots=True)
class Hdfs:
    """One cluster in a folder, on free ports."""

    folder: Path
    port: int = field(default_factory=lambda: free_ports(1)[0])
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def uri(self) -> str:
        """The folder of tables in it."""
        return f"hdfs://127.0.0.1:{self.port}/lake/tables"

    @property
    def environment(self) -> Mapping[str, str]:
        """Nothing: the URI names the name node."""
        return {}

    @property
    def jars(self) -> tuple[Path, ...]:
        """None: Spark has the client of HDFS."""
        return ()

    @staticmethod
    def is_fetched() -> bool:
        """Whether its jars are there."""
        return any(_JARS.glob("*.jar"))

    def start(self) -> None:
        """Starts both nodes and waits until a table's folder can be listed and written."""
        if not (self.folder / "conf").exists():
            self._format()
        for name in ("namenode.NameNode", "datanode.DataNode"):
            with (self.folder / f"{name}.log").open("ab") as log:
                self._processes.append(
                    subprocess.Popen(self._command(name), stdout=log, stderr=log, start_new_session=True)
                )
        eventually(self._answers, _PATIENCE_S, "HDFS answers and has left its safe mode")

    def go_away(self) -> None:
        """Ends both nodes; what they have synced stays."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(60)
        self._processes.clear()

    def freeze(self) -> None:
        """Both nodes take connections, and answer nobody."""
        for process in self._processes:
            process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Both go on where they froze."""
        for process in self._processes:
            process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Kills what runs."""
        for process in self._processes:
            process.kill()
            process.wait()
        self._processes.clear()

    def _answers(self) -> bool:
        with suppress(OSError, DeltaError):
            write_deltalake(f"{self.uri}-probe", pa.table({"here": [1]}), mode="overwrite")
            return True
        return False

    def _format(self) -> None:
        (self.folder / "conf").mkdir(parents=True)
        ports = free_ports(len(_ADDRESSES))
        properties = {
            "fs.defaultFS": f"hdfs://127.0.0.1:{self.port}",
            "dfs.namenode.name.dir": self.folder / "name",
            "dfs.datanode.data.dir": self.folder / "data",
            "dfs.replication": 1,
            "dfs.namenode.safemode.extension": 0,
            **{name: f"127.0.0.1:{port}" for name, port in zip(_ADDRESSES, ports, strict=True)},
        }
        items = (
            f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items()
        )
        content = f"<configuration>{''.join(items)}</configuration>"
        for name in ("core-site.xml", "hdfs-site.xml"):
            (self.folder / "conf" / name).write_text(content)
        command = self._command("namenode.NameNode", "-format", "-force", "-nonInteractive")
        subprocess.run(command, check=True, capture_output=True)

    def _command(self, name: str, *arguments: str) -> list[str]:
        own = Path(pyspark.__file__).parent / "jars"
        path = [str(self.folder / "conf"), *map(str, sorted(_JARS.glob("*.jar"))), f"{own}/*"]
        java = java_command(inherited_environment())  # type: ignore[no-untyped-call]
        return [java, *_OPTIONS, "-cp", ":".join(path), f"{_SERVER}.{name}", *arguments]
