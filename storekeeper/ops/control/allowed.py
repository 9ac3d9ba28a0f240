"""Which commands may run as jobs: those that read or change stores and apps. None takes a path or an address, and
none a key to erase.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from storekeeper.errors import InvalidArgumentError

ALLOWED: Mapping[str, frozenset[str]] = {
    "app": frozenset({"start", "stop", "restart", "scale", "upgrade"}),
    "check": frozenset(),
    "cleanup": frozenset({"preview", "run", "undo"}),
    "erase": frozenset(),
    "generation": frozenset({"plan", "seed", "status", "handover", "rollback", "retire"}),
    "quarantine": frozenset({"show", "release", "discard"}),
    "snapshot": frozenset({"create", "restore", "optimize"}),
    "upgrade-nodes": frozenset(),
    "verify": frozenset(),
}
"""The commands, and the subcommands of each; none for a command that has none."""
_NAME_APPS = frozenset({"app", "generation"})
"""Commands that take an app's name. Beyond jobs that may be `module:variable`, which imports a module."""
_OUTPUT = ("-o", "--output")
_MOST = 200
_LONGEST = 4000


def check_allowed(arguments: Sequence[str]) -> None:
    """Checks that the arguments are those of an allowed command.

    Raises:
        InvalidArgumentError: they are not.
    """
    if len(arguments) > _MOST or any(len(word) > _LONGEST or "\0" in word for word in arguments):
        msg = f"a job has at most {_MOST} arguments, each of at most {_LONGEST} characters and without NUL"
        raise InvalidArgumentError(msg)
    if any(word.partition("=")[0] in _OUTPUT or word.startswith("-o") for word in arguments):
        raise InvalidArgumentError("a job always answers in JSON: leave --output out")
    subcommands = ALLOWED.get(arguments[0] if arguments else "")
    if subcommands is None:
        msg = f"{' '.join(arguments[:1])[:100]!r} can't run as a job. Jobs are: {', '.join(sorted(ALLOWED))}"
        raise InvalidArgumentError(msg)
    if subcommands and (len(arguments) < 2 or arguments[1] not in subcommands):
        raise InvalidArgumentError(f"`{arguments[0]}` is followed by one of: {', '.join(sorted(subcommands))}")
    if arguments[0] == "erase" and not _runs_a_plan(arguments[1:]):
        raise InvalidArgumentError("a job erases what was planned before, and names no key: `erase STORE --run ID`")
    if arguments[0] in _NAME_APPS and any(":" in word and before != "--from" for before, word in pairwise(arguments)):
        raise InvalidArgumentError("a job names an app by its registered name, without a module")


def _runs_a_plan(arguments: Sequence[str]) -> bool:
    """Whether an erasure is one that was planned beforehand: keys and files of keys are for the command line alone."""
    return (
        len(arguments) > 2
        and not arguments[0].startswith("-")
        and arguments[1] == "--run"
        and arguments[3:] in ([], ["--dry-run"])
    )
