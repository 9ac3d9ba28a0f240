"""`storekeeper size`: the sums are those of the parts, and every part says its formula."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from storekeeper.cli.entry import app


def test_the_json_adds_up_and_names_its_formulas() -> None:
    outcome = CliRunner().invoke(app, ["size", "--rows", "5000000", "--partitions", "8", "--stores", "3", "-o", "json"])
    assert outcome.exit_code == 0
    answer = json.loads(outcome.stdout)
    for kind in ("memory", "disk"):
        assert answer[f"{kind}_bytes"] == sum(part["bytes"] for part in answer[kind])
        assert all(part["formula"] for part in answer[kind])
    assert answer["kafka_streams_memory_bytes"] > answer["memory_bytes"]


def test_the_table_shows_the_numbers_that_went_in() -> None:
    outcome = CliRunner().invoke(app, ["size", "--key-bytes", "17", "--value-bytes", "203"])
    assert outcome.exit_code == 0
    assert "17 + 203" in outcome.stdout


def test_a_store_without_partitions_is_refused() -> None:
    assert CliRunner().invoke(app, ["size", "--partitions", "0"]).exit_code == 2
