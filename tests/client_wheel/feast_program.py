"""A program in the environment of Feast: does what standard input says in one Feast repository, prints the outcomes.

Each step is a JSON object of a list: `do` names what, `online_store` replaces settings of the repository.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import pandas as pd
from feast import FeatureStore


def read(store: FeatureStore, step: dict[str, Any]) -> Any:
    """The features of rows: values as text, statuses, and the seconds of the events."""
    answer = store.get_online_features(features=step["features"], entity_rows=step["rows"])
    names = list(answer.proto.metadata.feature_names.val)
    return {
        "values": {
            name: [None if each is None else str(each) for each in found] for name, found in answer.to_dict().items()
        },
        "statuses": dict(zip(names, (list(vector.statuses) for vector in answer.proto.results), strict=True)),
        "times": dict(
            zip(names, ([at.seconds for at in vector.event_timestamps] for vector in answer.proto.results), strict=True)
        ),
    }


def write(store: FeatureStore, step: dict[str, Any]) -> None:
    """Writes rows as a push does."""
    rows = pd.DataFrame(step["rows"])
    rows["at"] = pd.to_datetime(rows["at"])
    store.write_to_online_store(step["view"], df=rows)


DEEDS: dict[str, Callable[[FeatureStore, dict[str, Any]], Any]] = {
    "read": read,
    "write": write,
    "teardown": lambda store, _: store.teardown(),
}


def outcome(step: dict[str, Any]) -> dict[str, Any]:
    """What a step gave, or the error that it raised."""
    store = FeatureStore(".")
    for name, value in step.get("online_store", {}).items():
        setattr(store.config.online_store, name, value)
    try:
        return {"answer": DEEDS[step["do"]](store, step)}
    except Exception as error:
        return {"error": type(error).__name__, "text": str(error)}
    finally:
        asyncio.run(store.provider.close())


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps([outcome(step) for step in json.load(sys.stdin)]))
