"""An index beside a replica's rows, kept in step with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

Change = tuple[bytes, bytes | None]
"""A key and its new value, None where the row was deleted."""


class RowIndex(Protocol):
    """The index that a replica updates with its rows. One thread changes it; any thread reads it."""

    @property
    def left_out_rows(self) -> int:
        """How many rows of the store it leaves out, such as those without a score."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why it can't answer, and what to do; None if it can."""
        ...

    def apply(self, changes: Iterable[Change]) -> None:
        """Applies a batch that was just written, one change a key; readers see all of it at once. Never raises."""
        ...

    def clear(self) -> None:
        """Drops everything and answers nothing: the store was closed, or its rows are about to be read again."""
        ...

    def built(self) -> None:
        """Called when all rows of the store were applied: answers are complete from now on."""
        ...
