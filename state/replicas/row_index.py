"""An index beside a replica's rows, kept in step with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

Change = tuple[bytes, bytes | None]
"""A key and its new value, None where the row was deleted."""


class RowIndex(Protocol):
    """What a replica tells of its rows. One thread calls these; whoever reads the index may be another one."""

    def apply(self, changes: Iterable[Change]) -> None:
        """Takes in what was just written, one change a key, all of it at once for whoever reads. Never raises."""
        ...

    def clear(self) -> None:
        """Forgets everything: the store was closed, or its rows are about to be told anew."""
        ...
