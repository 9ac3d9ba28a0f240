"""What tests need of a store of tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import psutil

FETCHED = Path(__file__).resolve().parents[2] / ".storage"
"""What `make setup-storage` fetches: jars of HDFS and S3, and a virtual environment with the S3 server."""


class TableStore(Protocol):
    """A store that can be away for a while without losing anything."""

    @property
    def uri(self) -> str:
        """The folder of tables in it, for `tables_uri`."""

    @property
    def port(self) -> int:
        """The port of this machine that its clients connect to first."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables by which its clients find it, and what they sign with."""

    @property
    def jars(self) -> tuple[Path, ...]:
        """The jars that Spark needs for it."""

    def start(self) -> None:
        """Starts it, or starts it again with what it held, and waits until it answers."""

    def go_away(self) -> None:
        """From here on nobody listens at its address."""

    def freeze(self) -> None:
        """From here on it takes connections and answers nobody."""

    def thaw(self) -> None:
        """It goes on where it froze."""

    def close(self) -> None:
        """Ends it for good."""


@contextmanager
def frozen(store: TableStore) -> Iterator[None]:
    """The store takes connections and answers nobody while the block runs."""
    store.freeze()
    try:
        yield
    finally:
        store.thaw()


def is_asked(store: TableStore, processes: Iterable[psutil.Process]) -> bool:
    """Whether one of the processes has a connection to the store."""
    with suppress(psutil.NoSuchProcess):
        return any(
            connection.raddr and connection.raddr.port == store.port and connection.status == psutil.CONN_ESTABLISHED
            for process in processes
            for connection in process.net_connections("tcp")
        )
    return False
