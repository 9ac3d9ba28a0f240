"""What tests need of a store of tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

FETCHED = Path(__file__).resolve().parents[2] / ".storage"
"""What `make setup-storage` fetches: jars of HDFS and S3, and a virtual environment with the S3 server."""


class TableStore(Protocol):
    """A store that can be away for a while without losing anything."""

    @property
    def uri(self) -> str:
        """The folder of tables in it, for `tables_uri`."""

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

    def close(self) -> None:
        """Ends it for good."""
