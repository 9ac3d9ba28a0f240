"""What `hadoop_export` reads and writes, and how far topic `hadoop-sink` has been exported.

Each commit of the table has the position that it reaches to in its user metadata, as JSON:
{"app": "hadoop_export", "position": {"hadoop-sink": {"<partition>": <next offset>}}}.
It outlives the app's generations: a new one that reads the topic from its beginning adds nothing twice.
"""

from __future__ import annotations

import orjson

from spark_apps.apps.records.topics import HADOOP_SINK
from spark_apps.spec import AppSpec
from state.changelog.position import Position
from state.errors import SerializationError
from state.names import dead_letter_topic

TABLE = "hadoop_export_staged"
"""The Delta table: line items that the quality gate has not seen yet."""

HADOOP_EXPORT = AppSpec(
    name="hadoop_export",
    title="Masked line items to Delta",
    module="spark_apps.apps.hadoop_export.app",
    sources=lambda _: (HADOOP_SINK,),
    sinks=lambda _: (),
    dead_letters=lambda _: (dead_letter_topic(HADOOP_SINK),),
)


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
