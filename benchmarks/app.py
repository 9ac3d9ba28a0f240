"""Count and sum per key, beside Kafka Streams and Quix Streams: `make bench-app`."""

from __future__ import annotations

from benchmarks.streams import run

if __name__ == "__main__":
    run("app", "totals", "Count and sum per key")
