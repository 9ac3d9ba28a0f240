"""The program `storekeeper`: its exit codes, and the command line that starts another process of it."""

from __future__ import annotations

import sys
from enum import IntEnum

from storekeeper.errors import (
    ConfigurationError,
    InvalidArgumentError,
    RefusedError,
    RetriableError,
    SnapshotDamagedError,
    StateError,
)


class ExitCode(IntEnum):
    """What an exit code means, the same for every command. After a signal it is 128 and the signal's number."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    FINDING = 4
    REFUSED = 5
    TRY_AGAIN = 75
    CONFIGURATION = 78

    @property
    def meaning(self) -> str:
        """The meaning in words, as the documents have it."""
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.DONE: "done; for a process, stopped on request",
    ExitCode.FAILED: "failed; standard error has the reason",
    ExitCode.USAGE: "wrong usage: an option or argument can't be used",
    ExitCode.NOT_FOUND: "there is no such key or row",
    ExitCode.FINDING: "a check found something: a difference, a part that isn't healthy, rows to quarantine",
    ExitCode.REFUSED: "refused: the step isn't safe now, and a person must decide",
    ExitCode.TRY_AGAIN: "not now: the same command may succeed later",
    ExitCode.CONFIGURATION: "a setting, a name, an installation or a table must be corrected first",
}

NO_RESTART = frozenset({ExitCode.REFUSED, ExitCode.CONFIGURATION})
"""A process that ended so would end so again: the supervisor doesn't restart it before something is changed."""


ERROR_PREFIX = "storekeeper: "
"""How the lines on standard error begin that say why a command failed."""


def exit_code_of(error: StateError) -> ExitCode:
    """The exit code of a process that ends with `error`."""
    if isinstance(error, RefusedError):
        return ExitCode.REFUSED
    if isinstance(error, ConfigurationError | SnapshotDamagedError):
        return ExitCode.CONFIGURATION
    if isinstance(error, InvalidArgumentError):
        return ExitCode.USAGE
    return ExitCode.TRY_AGAIN if isinstance(error, RetriableError) else ExitCode.FAILED


def storekeeper_command(*arguments: str) -> list[str]:
    """The command line of `storekeeper ARGUMENTS` with this interpreter, whether or not the script is on the PATH."""
    return [sys.executable, "-m", "storekeeper.cli.entry", *arguments]
