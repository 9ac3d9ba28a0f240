"""Every statement in the documents that holds a measured figure, made from `benchmarks/results/`.

`OVERVIEW` is the table of the overview; the README shows some of its rows. `SENTENCES` are in the prose of other
pages. `python -m benchmarks.report` writes the tables; a test finds each sentence in its page, and no other comparison.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from benchmarks.results import RESULTS

_FEW, _MANY = "Count and sum per key, 50,000 keys", "Count and sum per key, 5,000,000 keys"
_WINDOWS, _JOIN = "Count and sum per key and hour, 50,000 keys", "Stream joined with a table, 50,000 keys"
_POS = "POS topology"
_SNAPSHOT = "10 million rows, 1 % changed"
_UPDATES = ("1 update a key", "10 updates a key", "100 updates a key")
_STREAMS, _QUIX, _SPARK = "Kafka Streams", "Quix Streams", "PySpark"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the overview.

    Attributes:
        what: what was measured, with its size.
        ours: our figure.
        peer: the peer's figure, or the target.
        benchmark: NAME of `make bench-NAME`.
        in_readme: whether the README shows it.
    """

    what: str
    ours: str
    peer: str
    benchmark: str
    in_readme: bool = False

    def __str__(self) -> str:
        return f"| {self.what} | {self.ours} | {self.peer} | `{self.benchmark}` |"


def measure(benchmark: str, name: str, peer: str = "") -> dict[str, Any]:
    """One measure of a result.

    Args:
        benchmark: the name of the benchmark.
        name: that of the measure.
        peer: how the name of the peer begins, where there are several.

    Raises:
        KeyError: there is none.
    """
    for found in json.loads((RESULTS / f"{benchmark}.json").read_text())["measures"]:
        if found["measure"] == name and found.get("peer_name", "").startswith(peer):
            return dict(found)
    raise KeyError(benchmark, name, peer)


def _ours(benchmark: str, name: str) -> float:
    return float(measure(benchmark, name)["ours"])


def _peer(benchmark: str, name: str, peer: str = "") -> float:
    return float(measure(benchmark, name, peer)["peer"])


def _ratio(benchmark: str, name: str, peer: str = "") -> float:
    return float(measure(benchmark, name, peer)["ratio"])


def _size(benchmark: str, setting: str) -> int:
    return int(json.loads((RESULTS / f"{benchmark}.json").read_text())["settings"][setting])


def _between(figures: list[float], digits: int = 1) -> str:
    """The smallest and the largest; one figure where they look the same."""
    low, high = f"{min(figures):.{digits}f}", f"{max(figures):.{digits}f}"
    return low if low == high else f"{low} to {high}"


def _beside(since: str) -> list[dict[str, Any]]:
    found = json.loads((RESULTS / "neighbours.json").read_text())["measures"]
    return [one for one in found if one["measure"].endswith(since)]


def _during_migration() -> list[dict[str, Any]]:
    found = json.loads((RESULTS / "migration.json").read_text())["measures"]
    return [one for one in found if one["measure"].endswith(": p99 of reads")]


def _lost() -> str:
    """What the kills lost and duplicated, over all topics, stores and tables."""
    found = json.loads((RESULTS / "crash.json").read_text())["measures"]
    lost, doubled = (
        sum(one["ours"] for one in found if one["measure"].endswith(what)) for what in (", lost", ", doubled")
    )
    return f"{lost:.0f}, {doubled:.0f}"


def _app_row(name: str, what: str, benchmark: str, *, spark: bool = False) -> Row:
    streams, quix = (_peer(benchmark, name, peer) for peer in (_STREAMS, _QUIX))
    peer = f"Kafka Streams: {streams:,.0f}/s; Quix Streams: {quix:,.0f}/s"
    if spark:
        peer += f"; plain PySpark, at least once, on a fifth of the events: {_peer(benchmark, name, _SPARK):,.0f}/s"
    return Row(what, f"{_ours(benchmark, name):,.0f}/s", peer, benchmark, in_readme=True)


def overview() -> list[Row]:
    """The rows of the overview, in order."""
    events = f"{_size('app', 'events') / 1e6:g} million events, exactly once"
    quiet_ms = [one["peer"] for one in _beside("since due")]
    worst = ("a player's row: p99", "top 100: p99", "a player's place: p99")
    return [
        Row(
            f"point queries of one node, {_size('query', 'keys'):,} keys, {_size('query', 'connections')} connections",
            f"{_ours('query', 'point queries'):,.0f}/s, p99 {_ours('query', 'point queries: p99'):.1f} ms",
            f"Kafka Streams behind Vert.x: {_peer('query', 'point queries'):,.0f}/s, "
            f"p99 {_peer('query', 'point queries: p99'):.1f} ms",
            "query",
            in_readme=True,
        ),
        Row(
            f"keys per second, {_size('query', 'batch')} in one request",
            f"{_ours('query', 'many keys at once'):,.0f}",
            f"the same peer: {_peer('query', 'many keys at once'):,.0f}, one a request",
            "query",
        ),
        Row(
            "p99 of point reads while 32 clients scan, 16 stream or 32 scrape, with and without TLS",
            f"{_between([one['ratio'] for one in _beside('since due')])} times the undisturbed p99 "
            f"({_between(quiet_ms)} ms)",
            "at most 3 times",
            "neighbours",
        ),
        Row(
            "a read that another node has to answer, p50",
            f"{_ours('query', 'forwarded read: p50'):.2f} ms",
            f"answered by the node that is asked: {_peer('query', 'forwarded read: p50'):.2f} ms",
            "query",
        ),
        Row(
            f"{_size('leaderboard', 'players'):,} players, 2,000 new scores a second: "
            "p99 of a row, the top 100, a rank",
            ", ".join(f"{_ours('leaderboard', name):.1f}" for name in worst) + " ms",
            "below 8 ms",
            "leaderboard",
        ),
        Row(
            "wrong answers, and failed requests, while nodes are killed, stopped, cut off, slowed, and come and go",
            f"{_ours('failover', 'wrong answers'):.0f}, {_ours('failover', 'failed client requests'):.0f} "
            f"at a median of {_ours('failover', 'queries through the client'):.0f} queries/s",
            "0, 0 at 500 queries/s and more",
            "failover",
            in_readme=True,
        ),
        Row(
            "longest refusal of a bare HTTP client meanwhile",
            f"{_ours('failover', 'kill_and_return: longest refusal'):.0f} ms",
            "1 s",
            "failover",
        ),
        Row(
            f"cold restore of {_size('restore', 'records') / 1e6:g} million changelog records",
            f"{_ours('restore', 'restore'):,.0f}/s",
            f"Kafka Streams: {_peer('restore', 'restore'):,.0f}/s",
            "restore",
        ),
        Row(
            f"restore of {_size('seeded_restore', 'keys') / 1e6:g} million keys with 1, 10 and 100 updates each, begun "
            "with a sealed table",
            ", ".join(f"{_ours('seeded_restore', one):,.0f}" for one in _UPDATES) + " keys/s",
            "Kafka Streams, a replay: "
            + ", ".join(f"{_peer('seeded_restore', one):,.0f}" for one in _UPDATES)
            + " keys/s",
            "seeded_restore",
            in_readme=True,
        ),
        Row(
            "snapshot of 10 million rows, 1 % of them changed: append to the history, and the table of rows",
            f"{_ours('snapshot', 'append: ' + _SNAPSHOT):.0f} s, {_ours('snapshot', 'fold: ' + _SNAPSHOT):.0f} s",
            "20 s for the table",
            "snapshot",
        ),
        Row(
            "in a history of 100 million changes: what a key had at a time, and all rows of a time",
            f"{_ours('as_of', 'what a key had at a time, 100 million changes'):.2f} s, "
            f"{_ours('as_of', 'the rows of a time, 100 million changes'):.0f} s",
            "no peer has it",
            "as_of",
        ),
        Row(
            f"{_size('memory', 'rows') / 1e6:g} million rows in one process under a bound of 256 MiB, resident at most",
            f"{_ours('memory', 'resident while reading and writing, peak'):.0f} MiB",
            "600 MiB",
            "memory",
        ),
        _app_row(_FEW, f"count and sum of 50,000 keys in your own app, {events}", "app", spark=True),
        _app_row(_MANY, "the same with 5 million keys", "app", spark=True),
        _app_row(_WINDOWS, f"count and sum of 50,000 keys in windows of an hour, {events}", "windows"),
        _app_row(_JOIN, f"stream joined with a table of 50,000 keys, {events}", "join"),
        Row(
            f"{_size('pos', 'invoices') / 1e6:g} million invoices through the apps of the tills, exactly once",
            f"{_ours('pos', _POS):,.0f}/s",
            f"Kafka Streams: {_peer('pos', _POS):,.0f}/s; target 0.95 times that",
            "pos",
            in_readme=True,
        ),
        Row(
            "the same beside Quix Streams, exactly once",
            f"{_ours('quix', _POS):,.0f}/s",
            f"Quix Streams: {_peer('quix', _POS):,.0f}/s; target 2.5 times that",
            "quix",
            in_readme=True,
        ),
        Row(
            f"from an invoice to the answer of a node, at {_size('freshness', 'rate'):,} invoices a second, "
            "p50 and p99",
            f"{_ours('freshness', 'produce to visible, p50'):.1f} and "
            f"{_ours('freshness', 'produce to visible, p99'):.1f} s",
            "0.75 and 1.8 s",
            "freshness",
            in_readme=True,
        ),
        Row(
            f"{_ours('crash', 'kills'):.0f} times `kill -9` of drivers, JVMs, Python workers and the broker: records "
            "lost, and duplicated, in topics, state and tables",
            _lost(),
            "0, 0",
            "crash",
            in_readme=True,
        ),
        Row(
            "poison record to dead letter; restart of `pos` after `kill -9`",
            f"{_ours('freshness', 'poison record to dead letter, each'):.1f} s; "
            f"{_ours('freshness', 'restart of pos after kill -9'):.0f} s",
            "5 s; 15 s",
            "freshness",
        ),
        Row(
            "rolling back a migration under 1,000 reads and 1,000 writes a second; failed reads, rows that differ",
            f"{_ours('migration', 'roll back: took'):.1f} s; {_ours('migration', 'failed reads'):.0f}, "
            f"{_ours('migration', 'rows that differ from the oracle'):.0f}",
            "10 s; 0, 0",
            "migration",
            in_readme=True,
        ),
    ]


def sentences() -> dict[str, list[str]]:
    """The sentences with figures, by the page that holds them. Line breaks don't count."""
    spark = [_ratio("app", name, _SPARK) for name in (_FEW, _MANY)]
    quix = [_ratio("app", name, _QUIX) for name in (_FEW, _MANY)]
    migration, sent = _during_migration(), _beside("since sent")
    return {
        "docs/explanation/comparison.md": [
            (
                f"ours reaches {_ratio('app', _FEW, _STREAMS):.2f} of its rate for counts of 50,000 keys, "
                f"{_ratio('windows', _WINDOWS, _STREAMS):.2f} for the same in windows, "
                f"{_ratio('pos', _POS):.2f} for the topology of the tills, "
                f"and {_ratio('join', _JOIN, _STREAMS):.2f} for a join with a table"
            ),
            f"With 5 million keys ours was {_ratio('app', _MANY, _STREAMS):.2f} times as fast",
            (
                f"On 2 cores ours was {_ratio('quix', _POS):.1f} times as fast in the topology of the tills and "
                f"{_between(quix)} times for counts of 50,000 and 5 million keys"
            ),
            (
                f"Counts of 50,000 and 5 million keys were {_between(spark, 0)} times as fast as Python "
                "`transformWithState`, which ran at least once and on a fifth of the events"
            ),
        ],
        "docs/explanation/limits.md": [
            (
                f"On 2 cores the apps of the tills reach {_ratio('pos', _POS):.2f} times the speed of "
                f"Kafka Streams and {_ratio('quix', _POS):.1f} times that of Quix Streams, "
                "each with 1.5 million invoices"
            ),
            (
                f"take {_ratio('dsl', 'Loyalty of `pos`, processor time of a task'):.1f} times the processor time of "
                "hand-written code"
            ),
            (
                f"the 99th percentile of reads is {_between([one['ratio'] for one in migration])} times the value "
                f"before ({_between([one['peer'] for one in migration], 0)} ms)"
            ),
            (
                f"is {_between([one['ratio'] for one in sent], 0)} times the undisturbed one "
                f"({_between([one['peer'] for one in sent])} ms)"
            ),
            f"A forwarded read takes {_ratio('query', 'forwarded read: p50'):.0f} times as long as a local one",
        ],
    }
