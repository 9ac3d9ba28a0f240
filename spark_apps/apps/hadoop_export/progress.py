"""How far topic `hadoop-sink` has been exported, recorded in each commit of the table.

The position travels in the commit's user metadata, as JSON:
{"app": "hadoop_export", "position": {"hadoop-sink": {"<partition>": <next offset>}}}.
It outlives the app's generations: a new one that reads the topic from its beginning adds nothing twice.
"""

from __future__ import annotations

import orjson

from spark_apps.apps.hadoop_export.spec import HADOOP_EXPORT
from state.changelog.position import Position
from state.errors import SerializationError


def encode_progress(position: Position) -> str:
    """The user metadata of a commit that reaches a position."""
    content = {"app": HADOOP_EXPORT.name, "position": orjson.Fragment(position.to_json())}
    return orjson.dumps(content).decode()


def decode_progress(user_metadata: str | None) -> Position | None:
    """The position that a commit reaches to; None if the commit wasn't made by this app."""
    try:
        content = orjson.loads(user_metadata or "")
        if content["app"] != HADOOP_EXPORT.name:
            return None
        return Position.from_json(orjson.dumps(content["position"]))
    except (ValueError, TypeError, KeyError, SerializationError):
        return None
