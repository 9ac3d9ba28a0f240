"""The errors of the control API, and the problem that each is answered with."""

from __future__ import annotations

from storekeeper.errors import ConfigurationError, InvalidArgumentError, RetriableError, StateError
from storekeeper.node.query.answers.answer import Problem, problem_of
from storekeeper.quality.errors import StagedTableError


class UnknownJobError(StateError):
    """There is no job of that id: it was never asked for, or the control process has ended since."""


class JobConflictError(StateError):
    """A job of that id runs, with other arguments."""


class JobCancelledError(RetriableError):
    """The job was cancelled while it ran in a thread."""


class UnknownAppError(StateError):
    """There is no app of that name."""


class NothingToShowError(StateError):
    """There is no such page among the Data Docs, or the app is no topology."""


class UnknownTableError(StateError):
    """There is no table of that name that the quality gate publishes."""


class CommandFailedError(StateError):
    """A command that was asked fails. The message is its own."""


class NotNowError(RetriableError):
    """A command that was asked says that it may succeed later. The message is its own."""


_KINDS: tuple[tuple[type[Exception], str, int], ...] = (
    (UnknownJobError, "unknown-job", 404),
    (UnknownAppError, "unknown-app", 404),
    (UnknownTableError, "unknown-table", 404),
    (NothingToShowError, "nothing-to-show", 404),
    (StagedTableError, "staged-table", 409),
    (JobConflictError, "job-conflict", 409),
)


def control_problem(error: Exception) -> Problem:
    """The problem for an error."""
    for kind, name, status in _KINDS:
        if isinstance(error, kind):
            return Problem(name, status, str(error))
    if isinstance(error, ConfigurationError) and not isinstance(error, InvalidArgumentError):
        return Problem("invalid-argument", 400, str(error))
    return problem_of(error)
