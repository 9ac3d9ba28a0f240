"""Errors of the gate, on top of the library's tree.

StateError
├── ValidationError           the batch couldn't be evaluated; nothing was decided
├── StagedTableError          the staged table isn't what the gate can read; nothing was decided
└── RefusedError
    └── ReleaseRefusedError   a quarantined batch can't be released or discarded; nothing was changed
"""

from __future__ import annotations

from storekeeper.errors import RefusedError, StateError


class ValidationError(StateError):
    """The batch couldn't be evaluated. Nothing was decided: the next check tries again."""


def wrong_condition(table: str, sql: str, reason: object) -> ValidationError:
    """The error of a condition that isn't SQL over the table's columns. `reason` holds no value of the data."""
    lines = str(reason).splitlines() or [""]
    return ValidationError(f"condition {sql!r} of table {table} can't be evaluated: {lines[0]}")


class StagedTableError(StateError):
    """The staged table was rewritten or recreated, or has no change data feed. Nothing was decided.

    The message has the remedy.
    """


class ReleaseRefusedError(RefusedError):
    """There is no such quarantined batch, or it still breaks rules that aren't waived. Nothing was changed."""
