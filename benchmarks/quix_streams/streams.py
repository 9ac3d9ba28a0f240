"""The apps of `benchmarks/stream_apps.py` on Quix Streams: `python streams.py APP BOOTSTRAP GROUP STATE_DIR EVENTS`.

It runs until TERM, in an interpreter that has the packages of the lock beside this file. Two processes of one group
share the partitions.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any

from quixstreams import Application, State
from quixstreams.dataframe.windows import Count, Sum

PRODUCER = {"linger.ms": 50, "compression.type": "lz4", "batch.size": 262_144, "partitioner": "murmur2_random"}

Event = dict[str, Any]


def with_event(event: Event, state: State) -> None:
    """Adds the event to its key's totals."""
    totals = state.get("totals", {"Events": 0, "Total": 0})
    state.set("totals", {"Events": totals["Events"] + 1, "Total": totals["Total"] + event["Amount"]})


def main() -> None:
    """Runs one app."""
    which, bootstrap, group, state_dir, events = sys.argv[1:]
    app = Application(
        broker_address=bootstrap,
        consumer_group=group,
        state_dir=state_dir,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=0.1,
        producer_extra_config=PRODUCER,
        loglevel="WARNING",
    )
    stream = app.dataframe(app.topic(events, key_deserializer="str", value_deserializer="json"))
    if which == "totals":
        stream.update(with_event, stateful=True)
    elif which == "windows":
        window = stream.tumbling_window(timedelta(hours=1), grace_ms=timedelta(minutes=5))
        window.agg(Events=Count(), Total=Sum("Amount")).current()
    else:
        names = app.dataframe(app.topic("bench-names", key_deserializer="str", value_deserializer="json"))
        joined = stream.join_asof(names, how="inner", on_merge="keep-left")
        joined.to_topic(app.topic("quix-joined", key_serializer="str"))
    app.run()


if __name__ == "__main__":
    main()
