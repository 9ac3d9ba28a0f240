"""The benchmarks of queries run, briefly: every answer is right, none fails, and each measure is there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import leaderboard, query, wrk

ROOT = Path(__file__).resolve().parents[2]


def smoke(name: str) -> str:
    """What a short run prints; it fails if an answer was wrong or missing."""
    command = [sys.executable, "-m", f"benchmarks.{name}", "--smoke"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long("test_http_benchmarks.py has the leaderboard's, which needs no peer")
@pytest.mark.broker
@pytest.mark.skipif(wrk.missing() is not None, reason="wrk is not installed")
@pytest.mark.skipif(not any(query.PEER_JARS.glob("*.jar")), reason="the peer is not built: make bench-query builds it")
def test_queries_beside_the_peer() -> None:
    printed = smoke("query")
    for side in ("point queries", "with a token", "many keys at once", "forwarded read: p99"):
        assert side in printed


@pytest.mark.broker
def test_a_leaderboard_under_way() -> None:
    assert "all right" in smoke("leaderboard")


@pytest.mark.long("tests/node/query/reads/test_cooperative_scheduler.py has the pieces of heavy work and their turns")
@pytest.mark.broker
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_point_reads_beside_heavy_work() -> None:
    printed = smoke("neighbours")
    for neighbour in ("32 scanners", "16 Arrow streams", "16 NDJSON streams", "32 scrapes"):
        for way in ("", " with TLS"):
            assert f"reads beside {neighbour}{way}: p99 since sent" in printed


def test_without_wrk_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["query", "--smoke"])
    assert query.main() == 0
    assert "apt-get install wrk" in capsys.readouterr().out


def test_an_asker_that_was_held_up_shows_it_in_its_percentile() -> None:
    asked = leaderboard.Asked({"get": [0.001] * 98 + [0.5, 0.5]}, [])
    assert asked.p99_ms("get") == 500
    assert query.percentile([1.0, 2.0, 3.0], 50) == 2.0
    assert query.percentile([1.0, 2.0, 3.0], 99) == 3.0
