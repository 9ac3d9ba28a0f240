"""A process that asks where logs end, again and again, and prints how many ends it was told."""

from __future__ import annotations

import sys
import time

from storekeeper.changelog.log_ends import LogEnds
from storekeeper.kafka.connection import Kafka

PARTITIONS = 4


def main(bootstrap: str, topics: str, seconds: str, timeout_s: str) -> None:
    """Asks for so many seconds."""
    ends = LogEnds(Kafka(bootstrap), timeout_s=float(timeout_s))
    logs = [(topic, partition) for topic in topics.split(",") for partition in range(PARTITIONS)]
    told, deadline_s = 0, time.monotonic() + float(seconds)
    while time.monotonic() < deadline_s:
        told += sum(end.end is not None for end in ends.ends(logs).values())
    print(told)


if __name__ == "__main__":
    main(*sys.argv[1:])
