"""Count and sum per key and hour, beside Kafka Streams and Quix Streams: `make bench-windows`."""

from __future__ import annotations

from benchmarks.streams import run

if __name__ == "__main__":
    run("windows", "windows", "Count and sum per key and hour")
