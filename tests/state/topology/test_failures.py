"""Which errors of a user's function are about the record, and which would meet the next record as well."""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Callable
from datetime import datetime

import pytest

from state.errors import StorageError
from state.topology.failures import is_of_record


def error_of(function: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as raised:  # noqa: PT011 (any: it is looked at)
        function()
    return raised.value


@pytest.mark.parametrize(
    "function",
    [
        lambda: open("/nowhere/of/this/name").close(),  # noqa: PTH123 (a user's code)
        lambda: open("/" + "n" * 5000).close(),  # noqa: PTH123 (a user's code)
        lambda: open("/").close(),  # noqa: PTH123 (a user's code)
        lambda: datetime.fromtimestamp(1e17),  # noqa: DTZ006 (a user's code)
        lambda: datetime.fromtimestamp(2**55),  # noqa: DTZ006 (a user's code)
        lambda: {"a": 1}["missing"],
        lambda: next(iter(())),
    ],
)
def test_what_a_value_causes_is_about_its_record(function: Callable[[], object]) -> None:
    assert is_of_record(error_of(function))


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EIO, "Input/output error"),
        OSError(errno.EMFILE, "Too many open files"),
        OSError("a library's own, without a number"),
        ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
        TimeoutError(),
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        ssl.SSLError(1, "certificate verify failed"),
        MemoryError(),
        StorageError("the disk is full"),
        KeyboardInterrupt(),
    ],
    ids=repr,
)
def test_what_the_next_record_would_meet_as_well_is_not(error: BaseException) -> None:
    assert not is_of_record(error)


def test_another_error_from_that_one_is_not_either() -> None:
    def wrapped() -> None:
        try:
            raise StorageError("the disk is full")
        except StorageError as error:
            raise ValueError("no row") from error

    assert not is_of_record(error_of(wrapped))
