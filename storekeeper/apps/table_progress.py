"""How far a commit to a staged table reaches in the topics that the table is made from.

Each commit has it in its user metadata, as JSON:
{"app": "hadoop_export", "position": {"hadoop-sink": {"<partition>": <next offset>}}}.
It outlives the app's generations: a new one that reads the topic from its beginning adds nothing twice.
"""

from __future__ import annotations

import orjson

from storekeeper.changelog.position import Position
from storekeeper.errors import SerializationError


def encode_progress(app: str, position: Position) -> str:
    """The user metadata of an app's commit that reaches a position."""
    return orjson.dumps({"app": app, "position": orjson.Fragment(position.to_json())}).decode()


def decode_progress(user_metadata: str | None) -> Position | None:
    """The position that a commit reaches to; None if it has none, as commits of OPTIMIZE have none."""
    try:
        content = orjson.loads(user_metadata or "")
        return Position.from_json(orjson.dumps(content["position"])) if content["app"] else None
    except (ValueError, TypeError, KeyError, SerializationError):
        return None
