"""The commands, asking three nodes over sockets: what they print, where, and how they end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from storekeeper.cli.entry import app
from tests.client.past import made_past
from tests.client.served_cluster import BEGAN_MS, HOUR_MS, REWARDS, ServedCluster, served_cluster
from tests.snapshots.made_history import Produced

Command = Callable[..., Result]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="module")
def produced(tables: Path) -> dict[str, Produced]:
    return made_past(tables)


@pytest.fixture(scope="module")
def nodes(tables: Path) -> Iterator[ServedCluster]:
    with served_cluster(tables) as found:
        yield found


@pytest.fixture
def run(nodes: ServedCluster) -> Command:
    """Runs a command against the nodes."""
    options = [part for address in nodes.addresses for part in ("--node", address)]
    return lambda *arguments: CliRunner().invoke(app, [*arguments, *options])


def lines(outcome: Result) -> list[dict[str, object]]:
    assert outcome.exit_code == 0, outcome.stderr
    return [json.loads(line) for line in outcome.stdout.splitlines()]


def test_get(run: Command) -> None:
    found = run("get", "rewards", "card-07")
    assert json.loads(found.stdout) == REWARDS["card-07"]
    assert "partition" in found.stderr
    (row,) = lines(run("get", "rewards", "card-07", "--output", "json"))
    assert (row["key"], row["value"], row["offset_lag"]) == ("card-07", REWARDS["card-07"], 0)
    assert row["served_by"] in {"a", "b", "c"}


def test_a_value_that_is_null_is_shown_and_no_missing_key(run: Command) -> None:
    found = run("get", "prices", "gift")
    assert (found.exit_code, found.stdout) == (0, "null\n")
    (row,) = lines(run("get", "prices", "gift", "--output", "json"))
    assert (row["key"], row["value"], "found" in row) == ("gift", None, False)
    missing = run("get", "prices", "nobody", "--output", "json")
    assert (missing.exit_code, missing.stdout) == (3, "")


def test_get_as_of_a_time(run: Command) -> None:
    at = ("get", "prices", "shoes", "--as-of")
    assert run(*at, str(BEGAN_MS + 2 * HOUR_MS)).stdout == "4.25\n"
    (row,) = lines(run(*at, "2026-01-01T12:59:59Z", "--output", "json"))
    assert (row["value"], row["timestamp_ms"], row["valid_to_ms"]) == (3, BEGAN_MS, BEGAN_MS + HOUR_MS)
    assert run("get", "prices", "shoes").stdout == "5\n"
    gone = run(*at, str(BEGAN_MS + HOUR_MS))
    assert (gone.exit_code, gone.stdout) == (3, "")
    assert "store prices had no value of key 'shoes' then" in gone.stderr


def test_get_as_of_a_time_from_the_history(run: Command, produced: dict[str, Produced]) -> None:
    first, second = (str(ms) for ms, _ in produced["rewards"].states)
    found = run("get", "rewards", "card-07", "--as-of", first)
    assert found.stdout == '{"Card":"card-07","Points":1.5,"Visits":1}\n'
    assert "(history)" in found.stderr
    assert json.loads(run("get", "rewards", "card-07", "--as-of", second).stdout)["Points"] == 2.5
    assert run("get", "rewards", "nobody", "--as-of", first).exit_code == 3
    too_early = run("get", "rewards", "card-07", "--as-of", "2020-01-01")
    assert too_early.exit_code == 2
    assert "the earliest exact time is 2026-01-01T00:00:00.000Z" in too_early.stderr
    (window,) = lines(run("get", "sales", "s1", "--as-of", first, "--output", "json"))
    assert (window["start_ms"], window["value"]["Points"]) == (BEGAN_MS, 1.5)  # type: ignore[index]
    (session,) = lines(run("get", "visits", "u1", "--as-of", second, "--output", "json"))
    assert (session["end_ms"], session["value"]["Points"]) == (BEGAN_MS + 7, 2.5)  # type: ignore[index]
    assert run("get", "players", "anna", "--as-of", first).exit_code == 2, "there is no history of this store"


def test_scans_as_of_a_time(run: Command, produced: dict[str, Produced]) -> None:
    first, second = (str(ms) for ms, _ in produced["rewards"].states)
    for options in ((), ("--prefix", "card-0"), ("--from", "card-07"), ("--to", "card-08", "--reverse")):
        for at, points in ((first, 1.5), (second, 2.5)):
            (row,) = lines(run("get", "rewards", *options, "--as-of", at, "--output", "json"))
            assert (row["key"], row["value"]["Points"]) == ("card-07", points)  # type: ignore[index]
    assert run("get", "rewards", "--prefix", "x", "--as-of", first).exit_code == 3
    (window,) = lines(run("fetch", "sales", "--from", "1970-01-01", "--as-of", first, "--output", "json"))
    assert window["value"]["Points"] == 1.5  # type: ignore[index]
    (session,) = lines(run("fetch", "visits", "--from", "1970-01-01", "--as-of", second, "--output", "json"))
    assert session["value"]["Points"] == 2.5  # type: ignore[index]
    assert run("rank", "players", "--as-of", first).exit_code == 2, "there is no history of this store"
    assert run("rank", "players", "anna", "--as-of", first).exit_code == 2


def test_what_is_not_there_is_3_and_an_error_tells_what_helps(run: Command) -> None:
    for arguments in (
        ("get", "rewards", "nobody"),
        ("rank", "players", "nobody"),
        ("fetch", "sales", "nobody", "--from", "1970-01-01"),
        ("fetch", "visits", "nobody"),
    ):
        outcome = run(*arguments)
        assert (outcome.exit_code, outcome.stdout) == (3, "")
        assert "has no" in outcome.stderr
    unknown = run("get", "nowhere", "k")
    assert (unknown.exit_code, unknown.stdout) == (78, "")
    assert "nowhere" in unknown.stderr
    assert "Traceback" not in unknown.stderr
    assert run("rank", "rewards").exit_code == 2


def test_scan(run: Command) -> None:
    rows = lines(run("get", "rewards", "--from", "card-05", "--to", "card-07", "--output", "json"))
    assert rows == [{"key": key, "value": REWARDS[key]} for key in ("card-05", "card-06", "card-07")]
    assert len(lines(run("get", "rewards", "--limit", "7", "--output", "json"))) == 7
    back = lines(run("get", "rewards", "--reverse", "--from", "card-38", "--to", "card-39", "--output", "json"))
    assert [row["key"] for row in back] == ["card-39", "card-38"]
    assert len(lines(run("get", "rewards", "--prefix", "card-1", "--output", "json"))) == 10
    table = run("get", "rewards", "--prefix", "card-1", "--limit", "3")
    assert table.stdout.split()[:3] == ["key", "CustomerCardNo", "Points"]
    assert "--limit shows more" in table.stderr
    assert run("get", "rewards", "--prefix", "c", "--from", "c").exit_code == 2


@pytest.mark.parametrize("more", [("card-07", "--from", "c"), ("card-07", "--reverse")])
def test_a_key_goes_with_no_range(run: Command, more: tuple[str, ...]) -> None:
    assert run("get", "rewards", *more).exit_code == 2


@pytest.mark.parametrize("bounds", [("--from", "card-07", "--to", "card-05"), ("--from", "x"), ("--prefix", "nobody")])
@pytest.mark.parametrize("form", [(), ("--output", "json")])
def test_a_scan_without_rows_ends_as_a_fetch_without_windows(
    run: Command, bounds: tuple[str, ...], form: tuple[str, ...]
) -> None:
    found = run("get", "rewards", *bounds, *form)
    assert (found.exit_code, found.stdout) == (3, "")
    assert "store rewards has no row there" in found.stderr


@pytest.mark.parametrize(
    ("command", "there"),
    [
        (("get", "rewards", "--prefix", "card-1"), 10),
        (("fetch", "sales", "--from", str(BEGAN_MS)), 9),
        (("fetch", "visits", "--from", str(BEGAN_MS)), 3),
    ],
    ids=lambda given: given[0] if isinstance(given, tuple) else "",
)
@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_rows_that_are_left_out_are_told(run: Command, command: tuple[str, ...], there: int, form: str) -> None:
    assert "--limit" not in run(*command, "--output", form, "--limit", str(there)).stderr
    fewer = run(*command, "--output", form, "--limit", str(there - 1))
    assert f"the first {there - 1} rows: --limit shows more" in fewer.stderr


def test_windows(run: Command) -> None:
    rows = lines(
        run("fetch", "sales", "s1", "--from", "2026-01-01T13:00:00Z", "--to", "2026-01-01T13:00:00", "-o", "json")
    )
    assert rows == [{"key": "s1", "start_ms": BEGAN_MS + HOUR_MS, "value": {"Total": 1}}]
    assert len(lines(run("fetch", "sales", "--from", str(BEGAN_MS), "--output", "json"))) == 9
    assert "2026-01-01T12:00:00.000Z" in run("fetch", "sales", "s2", "--from", str(BEGAN_MS)).stdout
    assert run("fetch", "sales", "s1", "--from", "yesterday").exit_code == 2


def test_sessions(run: Command) -> None:
    (one,) = lines(run("fetch", "visits", "u1", "--output", "json"))
    assert one == {"key": "u1", "start_ms": BEGAN_MS, "end_ms": BEGAN_MS + 60_000, "value": {"Clicks": 3}}
    assert len(lines(run("fetch", "visits", "--from", str(BEGAN_MS), "--to", "now", "--output", "json"))) == 3
    assert run("fetch", "visits", "u1", "--active", "30m").exit_code == 2
    assert run("fetch", "visits", "--active", "half an hour").exit_code == 2
    assert run("fetch", "visits", "--active", "30m").exit_code == 3, "they ended long ago"
    assert len(lines(run("fetch", "visits", "--active", "9999d", "--output", "json"))) == 3


def test_ranks(run: Command) -> None:
    rows = lines(run("rank", "players", "-n", "2", "--output", "json"))
    assert [(row["rank"], row["key"]) for row in rows] == [(1, "anna"), (2, "ben")]
    assert "anna" in run("rank", "players").stdout
    assert run("rank", "players", "dan").stdout == "4 of 4, score 100\n"
    (row,) = lines(run("rank", "players", "dan", "--output", "json"))
    assert (row["rank"], row["of"]) == (4, 4)
    assert run("rank", "players", "dan", "--output", "csv").stdout.splitlines() == ["rank,key,score,of", "4,dan,100,4"]


def test_the_state_of_things(run: Command) -> None:
    assert len(lines(run("stores", "--replicas", "--output", "json"))) == 5 * 12 * 2
    assert "visits" in run("stores").stdout
    assert run("stores", "--nodes", "--output", "json").exit_code == 0


def test_a_node_that_is_silent_makes_the_list_of_replicas_fail(nodes: ServedCluster) -> None:
    gone = ["--node", nodes.addresses[0], "--node", "http://127.0.0.1:1", "--timeout", "0.3"]
    outcome = CliRunner().invoke(app, ["stores", "--replicas", *gone])
    assert outcome.exit_code == 4
    assert "http://127.0.0.1:1 does not answer" in outcome.stderr
    assert "rewards" in outcome.stdout, "what is known is shown all the same"


def test_settings_that_cannot_work_are_78(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = CliRunner().invoke(app, ["get", "s", "k", "--node", "http://a:1", "--token-file", str(tmp_path / "none")])
    assert (absent.exit_code, absent.stdout) == (78, "")
    assert "can't be read" in absent.stderr
    monkeypatch.setenv("STOREKEEPER_PEERS", "nonsense")
    assert CliRunner().invoke(app, ["stores"]).exit_code == 78
