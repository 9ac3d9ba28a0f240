"""Errors as HTTP answers: types and statuses that clients may rely on."""

from __future__ import annotations

import json

import pytest

from storekeeper.errors import (
    DiskFullError,
    InvalidArgumentError,
    StoreCorruptedError,
    StoreMigratedError,
    StoreRestoringError,
    StoreUnavailableError,
    UnknownStoreError,
)
from storekeeper.node.query.answers.answer import (
    BodyTooLargeError,
    KeyTooLongError,
    TooManyScansError,
    UnknownKeyError,
    problem_of,
)


@pytest.mark.parametrize(
    ("error", "kind", "status", "retry"),
    [
        (UnknownStoreError("x"), "unknown-store", 404, False),
        (UnknownKeyError("x"), "unknown-key", 404, False),
        (InvalidArgumentError("x"), "invalid-argument", 400, False),
        (KeyTooLongError("x"), "key-too-long", 414, False),
        (BodyTooLargeError("x"), "body-too-large", 413, False),
        (StoreMigratedError("x"), "not-held", 421, False),
        (TooManyScansError("x"), "too-many-scans", 429, True),
        (StoreRestoringError("x"), "restoring", 503, True),
        (StoreUnavailableError("x"), "unavailable", 503, True),
        (StoreCorruptedError("x"), "unavailable", 503, True),
        (DiskFullError("x"), "unavailable", 503, True),
    ],
)
def test_each_error_has_a_stable_type(error: Exception, kind: str, status: int, retry: bool) -> None:
    problem = problem_of(error)
    document = json.loads(problem.body())
    assert document["type"] == f"urn:storekeeper:problem:{kind}"
    assert document["status"] == document["error_code"] == problem.status == status
    assert document["detail"] == document["message"] == "x"
    assert ((b"retry-after", b"1") in problem.headers()) is retry


def test_a_defect_tells_nothing_of_itself() -> None:
    problem = problem_of(ValueError("secret"))
    assert problem.status == 500
    assert b"secret" not in problem.body()
