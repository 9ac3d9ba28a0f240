"""Failures of records: which errors a record is to blame for, and how they are described without any of its content."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import sysconfig
import traceback
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

from storekeeper.errors import (
    ConfigurationError,
    InvalidArgumentError,
    RejectedRecordError,
    SerializationError,
    StateError,
)

_OF_RECORD = (SerializationError, InvalidArgumentError, RejectedRecordError)
"""The library's errors that are about one record. All others are about stores, brokers or the description."""
_OF_VALUES = frozenset({
    errno.ENOENT, errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EINVAL,
    errno.ENAMETOOLONG, errno.ELOOP, errno.EOVERFLOW, errno.ERANGE, errno.EDOM,
})  # fmt: skip
"""What the system answers to a value that it can't take, such as a path that a record names, or a time too far away."""
_LIBRARY = str(Path(__file__).parents[1])
_NOT_THE_USERS = (_LIBRARY, *sysconfig.get_paths().values(), "<frozen")


class OnError(StrEnum):
    """What becomes of a record that an operator can't process."""

    DEAD_LETTER = "dead_letter"
    """It is left out, and goes to the dead letters."""
    FAIL = "fail"
    """It fails the batch, and so stops the app."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        msg = f"on_error can't be {value!r:.60}: use {' or '.join(repr(policy.value) for policy in cls)}"
        raise ConfigurationError(msg)


def is_of_record(error: BaseException) -> bool:
    """Whether an error that left a function of the user, or a serde, is about the record that it was given.

    It is not if memory, disk, network or a store failed, also where the function raised another error from that one:
    the next attempt may succeed, and the next record may fail as well.
    """
    if not isinstance(error, Exception):
        return False
    return not any(_is_of_surroundings(each) for each in _with_causes(error))


def _is_of_surroundings(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return not _is_of_value(error)
    return isinstance(error, MemoryError) or (isinstance(error, StateError) and not isinstance(error, _OF_RECORD))


def _raised_in(error: BaseException) -> str | None:
    """The file of the frame that an error was raised in."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return frames[-1].f_code.co_filename if frames else None


def _with_causes(error: BaseException) -> list[BaseException]:
    """An error and all that it was raised from, or is a group of. One may be raised from itself."""
    causes: dict[int, BaseException] = {}
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in causes:
            continue
        causes[id(each)] = each
        waiting += [each.__cause__, *(each.exceptions if isinstance(each, BaseExceptionGroup) else ())]
    return list(causes.values())


def note(error: BaseException, text: str) -> None:
    """Adds a note to an error of any class; `add_note` fails for a frozen data class."""
    notes = vars(error).get("__notes__")
    if isinstance(notes, list):
        notes.append(text)
    else:
        vars(error)["__notes__"] = [text]


def forget(error: BaseException) -> None:
    """Drops what an error that was dealt with keeps of its record: a function may raise the same object each time."""
    vars(error).pop("__notes__", None)
    error.with_traceback(None)


def _is_of_value(error: OSError) -> bool:
    """Whether the system refused a value. Errors of other libraries have numbers of their own, or none: networks'."""
    is_systems = type(error).__module__ == "builtins" and error.errno in _OF_VALUES
    is_codecs = isinstance(error, gzip.BadGzipFile) or (error.errno is None and _raised_in(error) == bz2.__file__)
    return is_systems or is_codecs or isinstance(error, io.UnsupportedOperation)


def reason_of(error: BaseException) -> str:
    """An error in one line. The text of an error that isn't the library's might quote the record: it is left out."""
    if isinstance(error, StateError):
        return str(error)
    name, line = type(error).__name__, line_of(error)
    return name if line is None else f"{name} at {line}"


def line_of(error: BaseException) -> str | None:
    """The line of the user's code at which an error was raised: file, number, function. None if it was in none."""
    places = ((frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__))
    lines = [(code, line) for code, line in places if not code.co_filename.startswith(_NOT_THE_USERS)]
    if not lines:
        return None
    code, line = lines[-1]
    return f"{'/'.join(Path(code.co_filename).parts[-2:])}:{line} in {code.co_name}"


def summary_of(error: BaseException) -> str:
    """What failed a batch, in one line: the error, the user's line, the operator and the record."""
    return ", ".join([reason_of(error), *getattr(error, "__notes__", ())])
