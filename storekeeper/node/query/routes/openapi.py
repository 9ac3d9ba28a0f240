"""The OpenAPI document of a node: what the framework derives from the routes, and what it can't know.

Keys are read from paths as they were sent, so the framework sees neither their names nor that a range has two. Errors
and the headers of answers are the same everywhere, and are described once. Operations are named by their functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel

from storekeeper.node.query.answers.answer import (
    COMPLETE,
    KINDS_BY_STATUS,
    MEDIA_TYPE,
    NEXT_CURSOR,
    OFFSET,
    OFFSET_LAG,
    PARTITION,
    POSITION,
    ROLE,
    SERVED_BY,
    STALENESS,
)
from storekeeper.node.query.reads.stream_format import NDJSON

Json = dict[str, Any]

_FORMS = {
    "/state/keyvalues/{store}/range/{bounds}": "/state/keyvalues/{store}/range/{from}/{to}",
    "/state/windowed/{store}/{bounds}": "/state/windowed/{store}/{key}/{fromMs}/{toMs}",
}
"""The paths whose last parts are read together, as a caller writes them."""

_IN_PATHS = {
    "store": ("A store's name.", {"type": "string"}),
    "key": ("A key, percent-encoded as one segment; base64url with `key_format`.", {"type": "string", "minLength": 1}),
    "prefix": ("How keys begin, written like a key.", {"type": "string", "minLength": 1}),
    "from": ("The first one, included.", {"type": "string"}),
    "to": ("The last one, included.", {"type": "string"}),
    "fromMs": ("Epoch milliseconds, included.", {"type": "integer", "minimum": 0}),
    "toMs": ("Epoch milliseconds, included.", {"type": "integer", "minimum": 0}),
}
_EVERYWHERE = (400, 401, 403, 414, 429, 431, 500, 503)
_READ_HEADERS = {
    SERVED_BY: "The node that answered.",
    ROLE: "`active`, `standby` or `history`; for one key.",
    PARTITION: "The partition of the key.",
    OFFSET: "All changelog records before it are in the answer; for one key.",
    OFFSET_LAG: "The most records that are missing.",
    STALENESS: "The age of the answer in milliseconds; absent if it is not known.",
    POSITION: "A token for `position=` of a later read.",
    COMPLETE: "With `partial=ok`: whether all partitions answered, with all their rows.",
    NEXT_CURSOR: "For `cursor=` of the next page; absent on the last one.",
}


class FreshestView(BaseModel):
    """The freshest replica that a node knows of."""

    node: str
    role: str
    offset_lag: int | None
    staleness_ms: int | None
    position: str


class ProblemView(BaseModel):
    """An error (RFC 9457). `error_code` and `message` are those of Kafka Connect. `too-stale` has `freshest`."""

    type: str
    title: str
    status: int
    detail: str
    error_code: int
    message: str
    freshest: FreshestView | None = None


class NodeApp(FastAPI):
    """A FastAPI application with this document at `/openapi.json`."""

    def openapi(self) -> Json:
        """The document; made at the first call."""
        if self.openapi_schema is None:
            self.openapi_schema = completed(super().openapi())
        return self.openapi_schema


def operation_id(route: APIRoute) -> str:
    """The name of an operation: that of its function, which must be unique."""
    return route.name


def completed(document: Json) -> Json:
    """The whole document.

    Args:
        document: as the framework derives it. It is changed.
    """
    document["paths"] = {_FORMS.get(path, path): operations for path, operations in document["paths"].items()}
    for path, method, operation in _operations(document):
        _describe_parameters(path, operation)
        _describe_answers(path, method, operation)
    components = document["components"]
    for schema in components["schemas"].values():
        for name in schema.get("properties", {}).keys() - schema.get("required", ()):
            _without_null(schema["properties"][name])
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    for view in (FreshestView, ProblemView):
        components["schemas"][view.__name__] = view.model_json_schema(
            ref_template="#/components/schemas/{model}", mode="serialization"
        )
        components["schemas"][view.__name__].pop("$defs", None)
    components["schemas"] = dict(sorted(components["schemas"].items()))
    components["responses"] = {f"problem{status}": _problem(kinds) for status, kinds in KINDS_BY_STATUS.items()}
    components["headers"] = {
        name.decode(): {"description": text, "schema": {"type": "string"}} for name, text in _READ_HEADERS.items()
    }
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{}, {"token": []}]
    _widen_integers(document)
    return document


def _widen_integers(node: object) -> None:
    """Offsets, counts and times have 64 bits; programs in other languages would take 32."""
    if isinstance(node, dict):
        if node.get("type") == "integer":
            node["format"] = "int64"
        for each in node.values():
            _widen_integers(each)
    elif isinstance(node, list):
        for each in node:
            _widen_integers(each)


def _operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield path, method, operation


def _describe_parameters(path: str, operation: Json) -> None:
    parameters: list[Json] = operation.get("parameters", [])
    declared = {parameter["name"]: parameter for parameter in parameters if parameter["in"] == "path"}
    in_path = [declared.get(name) or _in_path(name) for name in re.findall(r"{(\w+)}", path)]
    others = [parameter for parameter in parameters if parameter["in"] != "path"]
    for parameter in others:
        _without_null(parameter["schema"])
    if in_path or others:
        operation["parameters"] = in_path + others


def _in_path(name: str) -> Json:
    text, schema = _IN_PATHS[name]
    return {"name": name, "in": "path", "required": True, "description": text, "schema": schema}


def _without_null(schema: Json) -> None:
    """What may be left out is left out, and never null."""
    kept = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(kept) == 1:
        del schema["anyOf"]
        schema.update(kept[0])


def _describe_answers(path: str, method: str, operation: Json) -> None:
    answers = operation["responses"]
    answers.pop("422", None)
    good = answers["200"]
    if any(parameter["name"] == "max_lag" for parameter in operation.get("parameters", ())):
        good["headers"] = {name.decode(): {"$ref": f"#/components/headers/{name.decode()}"} for name in _READ_HEADERS}
    statuses = [*_EVERYWHERE]
    if "{store}" in path:
        statuses.append(404)
    if NDJSON in good["content"]:
        statuses.append(406)
    if method == "post":
        statuses += [408, 413]
    if path.startswith("/state/digest/"):
        statuses.append(421)
    for status in sorted(statuses):
        answers.setdefault(str(status), {"$ref": f"#/components/responses/problem{status}"})


def _problem(kinds: tuple[str, ...]) -> Json:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemView"}}}
    return {"description": f"Type `urn:storekeeper:problem:` and {' or '.join(kinds)}.", "content": content}
