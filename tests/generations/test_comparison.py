from __future__ import annotations

from pathlib import Path

import pytest

from storekeeper.changelog.position import Position
from storekeeper.generations import comparison
from storekeeper.generations.comparison import ComparisonVerdict, chain_between, compare_generations
from storekeeper.generations.errors import GenerationRefusedError
from storekeeper.generations.journal import Generation, GenerationState
from storekeeper.generations.status import behind
from storekeeper.kafka.connection import Kafka
from tests.snapshots.played_log import PlayedLog


def generation(number: int, *migrations: str) -> Generation:
    return Generation(number, GenerationState.STARTED, {"rewards": f"topic-{number}"}, migrations=migrations)


def test_rows_are_converted_by_what_the_newer_generation_has_beyond_the_older() -> None:
    tier, region = "rewards-tier", "rewards-by-region"
    row = (b"4629", b'{"CustomerCardNo":"4629","TotalLoyaltyPoints":12.3456,"InvoiceCount":3,"LastInvoiceTime":1500}')
    (second,) = chain_between(generation(1), generation(2, tier)).convert(*row)
    (third,) = chain_between(generation(2, tier), generation(3, tier, region)).convert(*second)
    assert chain_between(generation(1), generation(3, tier, region)).convert(*row) == [third]
    assert chain_between(generation(2, tier), generation(3, tier)).convert(*second) == [second]


def test_generations_that_do_not_follow_on_each_other_are_not_compared() -> None:
    with pytest.raises(GenerationRefusedError, match="generation 3 does not follow on generation 2"):
        chain_between(generation(2, "rewards-tier"), generation(3))


def compared(
    folder: Path, monkeypatch: pytest.MonkeyPatch, one: list[dict[str, str]], other: list[dict[str, str]]
) -> ComparisonVerdict:
    """Compares generations whose changelogs have these rows, by partition."""
    logs = {"topic-1": one, "topic-2": other}

    def played(_: Kafka, topic: str) -> PlayedLog:
        log = PlayedLog(topic, partitions=range(len(logs[topic])))
        log.logs = {at: {} for at in log.partitions}
        log.ends = dict.fromkeys(log.partitions, 0)
        for at, rows in enumerate(logs[topic]):
            for key, word in rows.items():
                log._put(at, key, word, ())
        return log

    monkeypatch.setattr(comparison, "Changelog", played)
    return compare_generations(Kafka(""), folder, generation(1), generation(2))


def test_rows_of_one_key_in_several_partitions_are_compared_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [{"total": "ten"}, {"total": "five"}]
    assert compared(tmp_path, monkeypatch, before, before) == ComparisonVerdict(2, 2, 0, 0, 0, 0, holds=True)
    other = compared(tmp_path, monkeypatch, before, [{"total": "nine"}, {"total": "five"}])
    assert (other.same, other.differing, other.holds) == (1, 1, False)
    lost = compared(tmp_path, monkeypatch, before, [{}, {"total": "five"}])
    assert (lost.same, lost.missing, lost.holds) == (1, 1, False)


def test_rows_that_move_are_compared_by_their_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = compared(tmp_path, monkeypatch, [{"a": "one"}, {"b": "two"}], [{}, {}, {"a": "one", "b": "two"}])
    assert (moved.same, moved.holds) == (2, True)
    merged = compared(tmp_path, monkeypatch, [{"total": "ten"}, {"total": "five"}], [{}, {}, {"total": "five"}])
    assert (merged.unconvertible, merged.holds) == (1, False)


def test_what_a_killed_comparison_left_on_the_disk_goes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "compare-killed" / "older").mkdir(parents=True)
    (tmp_path / "compare-killed" / "older" / "0000").write_bytes(b"rows")
    (tmp_path / "gen-1").mkdir()
    assert compared(tmp_path, monkeypatch, [{"a": "one"}], [{"a": "one"}]).holds
    assert [folder.name for folder in tmp_path.iterdir()] == ["gen-1"]


def test_how_far_behind_is_counted_in_records() -> None:
    ahead = Position({"pos": {0: 10, 1: 7, 2: 3}})
    assert behind(ahead, Position({"pos": {0: 4, 1: 9}})) == 9
    assert behind(Position(), ahead) == 0
