"""An S3 server: moto, in a virtual environment of its own."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import Request, urlopen

from harness.ports import free_ports
from harness.storage.place import FETCHED

_PYTHON = FETCHED / "moto" / "bin" / "python"
_PROGRAM = Path(__file__).with_name("moto") / "s3_server.py"


@dataclass(slots=True)
class S3:
    """A server with one bucket. It keeps its objects in memory, also while it is away."""

    port: int = field(default_factory=lambda: free_ports(1)[0])
    bucket: str = "lake"
    _process: subprocess.Popen[str] | None = None

    @property
    def uri(self) -> str:
        """The folder of tables in it."""
        return f"s3://{self.bucket}/tables"

    @property
    def environment(self) -> Mapping[str, str]:
        """The address, and credentials that no other server takes."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "of-a-test",
            "AWS_SECRET_ACCESS_KEY": "secret-of-a-test",
        }

    @property
    def jars(self) -> tuple[Path, ...]:
        """Hadoop's client of S3."""
        return tuple(sorted((FETCHED / "s3").glob("*.jar")))

    @staticmethod
    def is_fetched() -> bool:
        """Whether the server is there."""
        return _PYTHON.exists()

    def start(self) -> None:
        """Starts the server, or lets it listen again."""
        if self._process is not None:
            self._tell("start")
            return
        command = [str(_PYTHON), str(_PROGRAM), str(self.port)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._tell("start")
        with urlopen(Request(f"http://127.0.0.1:{self.port}/{self.bucket}", method="PUT")) as answer:
            assert answer.status == 200

    def go_away(self) -> None:
        """Nobody listens at the address any more."""
        self._tell("stop")

    def freeze(self) -> None:
        """It takes connections, and answers nobody."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on where it froze."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _tell(self, word: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == f"{word}\n", "the S3 server has ended"
