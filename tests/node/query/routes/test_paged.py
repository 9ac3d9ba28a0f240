"""The format of a scan's answer."""

from __future__ import annotations

import pytest

from storekeeper.node.query.reads.stream_format import ARROW, NDJSON
from storekeeper.node.query.routes.paged import JSON, first_named


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", JSON),
        ("*/*", JSON),
        (NDJSON, NDJSON),
        (f"text/html, {ARROW};q=0.9", ARROW),
        (f"{JSON}, {NDJSON}, {ARROW}, application/problem+json", JSON),
        (f"{NDJSON}, {JSON}", NDJSON),
    ],
)
def test_the_first_that_is_named_decides(accept: str, form: str) -> None:
    assert first_named(accept) == form
