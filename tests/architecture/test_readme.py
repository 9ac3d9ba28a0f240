"""The README's code runs, and the figures of the overview and of the README are the measured ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from spark_apps.settings import AppSettings

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
OVERVIEW = (ROOT / "docs" / "explanation" / "benchmarks" / "README.md").read_text()


def measured(benchmark: str, measure: str) -> dict[str, Any]:
    """One measure of a result file."""
    results = json.loads((ROOT / "benchmarks" / "results" / f"{benchmark}.json").read_text())
    found: dict[str, Any] = next(m for m in results["measures"] if m["measure"] == measure)
    return found


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102 (our own documentation)
    assert capsys.readouterr().out == "[('alice', Points(total=159))]\n"


@pytest.mark.parametrize(
    ("words", "benchmark", "measure", "figure"),
    [
        ("{:,.0f}/s, p99", "query", "point queries", "ours"),
        ("{:,.0f}/s, p99", "query", "point queries", "peer"),
        ("p99 {:.1f} ms | Kafka", "query", "point queries: p99", "ours"),
        ("p99 {:.1f} ms | `query`", "query", "point queries: p99", "peer"),
        ("in one request | {:,.0f} |", "query", "many keys at once", "ours"),
        ("{:,.0f}, one a request", "query", "many keys at once", "peer"),
        ("p50 | {:.2f} ms", "query", "forwarded read: p50", "ours"),
        ("that is asked: {:.2f} ms", "query", "forwarded read: p50", "peer"),
        ("a rank | {:.1f},", "leaderboard", "a player's row: p99", "ours"),
        (", {:.1f}, ", "leaderboard", "top 100: p99", "ours"),
        ("{:.1f} ms | below", "leaderboard", "a player's place: p99", "ours"),
        ("| {:.0f}, ", "failover", "wrong answers", "ours"),
        (", {:.0f} at a median of", "failover", "failed client requests", "ours"),
        ("a median of {:.0f} queries/s", "failover", "queries through the client", "ours"),
        ("meanwhile | {:.0f} ms", "failover", "kill_and_return: longest refusal", "ours"),
        ("records | {:,.0f}/s", "restore", "restore", "ours"),
        ("Kafka Streams: {:,.0f}/s | `restore`", "restore", "restore", "peer"),
        ("RocksDB get | {:.1f} times", "wrappers", "get: all", "ratio"),
        ("at most | {:.0f} MiB", "memory", "resident while reading and writing, peak", "ours"),
        ("exactly once | {:,.0f}/s", "app", "Count and sum per key, 50,000 keys", "ours"),
        ("Kafka Streams: {:,.0f}/s;", "app", "Count and sum per key, 50,000 keys", "peer"),
        ("5 million keys | {:,.0f}/s", "app", "Count and sum per key, 5,000,000 keys", "ours"),
        ("Kafka Streams: {:,.0f}/s;", "app", "Count and sum per key, 5,000,000 keys", "peer"),
        ("exactly once | {:,.0f}/s", "pos", "POS topology", "ours"),
        ("Kafka Streams: {:,.0f}/s;", "pos", "POS topology", "peer"),
        ("| {:.1f} and", "freshness", "produce to visible, p50", "ours"),
        ("and {:.1f} s", "freshness", "produce to visible, p99", "ours"),
        ("| {:.1f} s;", "freshness", "poison record to dead letter, each", "ours"),
        ("rows that differ | {:.1f} s;", "migration", "roll back: took", "ours"),
        (" s; {:.0f}, 0 | 10 s", "migration", "failed reads", "ours"),
        (", {:.0f} | 10 s", "migration", "rows that differ from the oracle", "ours"),
        ("; {:.0f} s |", "freshness", "restart of pos after kill -9", "ours"),
    ],
)
def test_a_figure_is_the_measured_one(words: str, benchmark: str, measure: str, figure: str) -> None:
    row = words.format(measured(benchmark, measure)[figure])
    assert any(row in line and f"`{benchmark}`" in line for line in OVERVIEW.splitlines())


def test_the_readme_has_rows_of_the_overview() -> None:
    rows = [line for line in README.splitlines() if re.fullmatch(r"\|.*\| `\w+` \|", line)]
    assert len(rows) > 5
    assert [row for row in rows if row not in OVERVIEW.splitlines()] == []


def test_what_is_said_of_kills_was_seen() -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "crash.json").read_text())
    wrong = [m["ours"] for m in result["measures"] if m["measure"].endswith((", lost", ", doubled"))]
    assert len(wrong) == 24
    (row,) = [line for line in OVERVIEW.splitlines() if "`crash` |" in line]
    assert row.startswith(f"| {result['settings']['rounds']} `kill -9`")
    assert f"| {sum(wrong):.0f}, {sum(wrong):.0f} | 0, 0 |" in row


def test_the_workers_of_an_app_stay_below_what_is_stated() -> None:
    """90 MiB, the local stores, and 1 KiB for each record of a task's batch; a process a task."""
    assert (
        "below 90 MiB, this, and 1 KiB for each record" in (ROOT / "docs" / "explanation" / "delivery.md").read_text()
    )
    settings = json.loads((ROOT / "benchmarks" / "results" / "app.json").read_text())["settings"]
    records = int(settings["max_offsets_per_trigger"])
    stated_mib = settings["partitions"] * (90 + AppSettings().state_memory_mb) + records / 1024
    for keys in ("50,000", "5,000,000"):
        assert measured("app", f"Count and sum per key, {keys} keys: memory of all workers")["ours"] < stated_mib


def test_every_target_that_it_names_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"^ +make (\w+)", README, flags=re.MULTILINE)) <= targets
