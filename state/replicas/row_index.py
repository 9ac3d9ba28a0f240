"""An index beside a replica's rows, kept in step with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

Change = tuple[bytes, bytes | None]
"""A key and its new value, None where the row was deleted."""


class RowIndex(Protocol):
    """What a replica reports about its rows. One thread changes it; any thread reads it."""

    @property
    def left_out_rows(self) -> int:
        """How many rows of the store it can't hold, such as those without a score."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why it can't answer, and what to do; None if it can."""
        ...

    def apply(self, changes: Iterable[Change]) -> None:
        """Takes in what was just written, one change a key, all of it at once for whoever reads. Never raises."""
        ...

    def clear(self) -> None:
        """Forgets everything, and answers nothing: the store was closed, or its rows are about to be read anew."""
        ...

    def built(self) -> None:
        """All rows of the store were applied: answers are whole from now on."""
        ...
