"""Stream joined with a table, beside Kafka Streams and Quix Streams: `make bench-join`."""

from __future__ import annotations

from benchmarks.streams import run

if __name__ == "__main__":
    run("join", "join", "Stream joined with a table")
