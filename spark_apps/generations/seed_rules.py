"""What an app must tell of itself so that a generation of it can begin with the content of another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class SeedRules:
    """One app's rules.

    Attributes:
        schema, ddl: columns of a seed's rows, as Arrow and as Spark SQL have them; none is called as `SEED_STORE`.
        row: from a record of a store, in version 1, to such a row. Raises any exception for a record that is none.
        notes: from a checkpoint's folder and a finished batch to what a successor must know beside the store's content
            to go on after that batch; JSON's own types. Raises `NotesGoneError` when the app has gone on too far.
        begin: hands such notes to the generation with that checkpoint folder, before its first start.
        state: from a Spark session, a checkpoint's folder and a finished batch to a frame of what the app's own state
            was after it, if the store's rows don't tell. Raises errors of Spark's, then or later, when that is there no
            more.
        forget: from such a frame, and one of keys in column `key`, to the state without those keys.
    """

    schema: pa.Schema
    ddl: str
    row: Callable[[bytes, bytes], tuple[Any, ...]]
    notes: Callable[[Path, int], Mapping[str, Any]]
    begin: Callable[[Path, Mapping[str, Any]], None]
    state: Callable[[Any, Path, int], Any] | None = None
    forget: Callable[[Any, Any], Any] | None = None
