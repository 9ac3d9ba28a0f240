"""The OpenAPI document: the file is that of the code, and it says all that an answer may be."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.node.query.cluster import Cluster
from tests.node.query.openapi import document
from tests.node.query.routes.test_queries_docs import EXAMPLES, cluster

__all__ = ["cluster"]

FILE = Path(__file__).parents[4] / "docs" / "reference" / "openapi.json"
DOCUMENT: dict[str, Any] = json.loads(FILE.read_text())
OPERATIONS = [(path, method, way) for path, ways in DOCUMENT["paths"].items() for method, way in ways.items()]


def test_the_file_is_that_of_the_code() -> None:
    assert FILE.read_text() == document(), "run: python -m tests.node.query.openapi > docs/reference/openapi.json"


def test_every_operation_has_a_name_of_its_own() -> None:
    names = [way["operationId"] for _, _, way in OPERATIONS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z_]+", name) for name in names)


def test_every_part_of_a_path_is_a_parameter() -> None:
    for path, _, way in OPERATIONS:
        declared = [each["name"] for each in way.get("parameters", ()) if each["in"] == "path"]
        assert declared == re.findall(r"{(\w+)}", path), path


def test_every_reference_leads_somewhere() -> None:
    for reference in _references(DOCUMENT):
        found: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]


def test_every_answer_has_a_schema() -> None:
    for path, _, way in OPERATIONS:
        for status, answer in way["responses"].items():
            for media_type, content in answer.get("content", {}).items():
                assert content.get("schema"), f"{path} {status} {media_type}"


@pytest.mark.parametrize(("path", "answer"), EXAMPLES, ids=[path for path, _ in EXAMPLES])
def test_an_answer_is_as_described(cluster: Cluster, path: str, answer: str) -> None:
    del answer
    found = asyncio.run(cluster.get("a", path))
    described = _operation(path)["responses"][str(found.status_code)]
    if "$ref" in described:
        described = DOCUMENT["components"]["responses"][described["$ref"].rpartition("/")[2]]
    media_type = found.headers["content-type"].partition(";")[0]
    jsonschema_rs.validate(_whole(described["content"][media_type]["schema"]), found.json())
    named = {name for name in found.headers if name.startswith("storekeeper-")}
    assert named - described.get("headers", {}).keys() <= {"storekeeper-served-by", "storekeeper-epoch"}


def test_every_kind_of_problem_is_described() -> None:
    table = (FILE.parent / "http-api.md").read_text().partition("\n## Errors\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| (\d+) \|", table, flags=re.MULTILINE)
    for kinds, status in rows:
        response = DOCUMENT["components"]["responses"].get(f"problem{status}", {"description": ""})
        for kind in re.findall(r"`([\w-]+)`", kinds):
            assert kind in response["description"] or kind in {"unknown-route", "method-not-allowed"}


def _references(found: object) -> Iterator[str]:
    if isinstance(found, dict):
        if isinstance(found.get("$ref"), str):
            yield found["$ref"]
        for each in found.values():
            yield from _references(each)
    elif isinstance(found, list):
        for each in found:
            yield from _references(each)


def _operation(path: str) -> dict[str, Any]:
    """The operation that answers to a path with its query: the one with the fewest parameters."""
    bare = path.partition("?")[0]
    fitting = [
        each
        for each in DOCUMENT["paths"]
        if re.fullmatch(re.sub(r"{\w+}", "[^/]+", re.escape(each).replace("\\{", "{").replace("\\}", "}")), bare)
    ]
    found: dict[str, Any] = DOCUMENT["paths"][min(fitting, key=lambda each: each.count("{"))]["get"]
    return found


def _whole(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "components": DOCUMENT["components"]}
