from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from storekeeper.cli.output import AnswerOutput, ListOutput, write_answer, write_rows

ANSWER = {"app": "pos", "decided_at_ms": 1_795_693_463_081, "stores": [{"name": "rewards", "offsets": {"0": 7}}]}
BRIEF: dict[str, Any] = {**ANSWER, "stores": [{"name": "rewards"}]}


def test_a_program_gets_all_and_a_person_the_brief_answer(capsys: pytest.CaptureFixture[str]) -> None:
    write_answer(ANSWER, AnswerOutput.JSON, BRIEF)
    assert json.loads(capsys.readouterr().out) == ANSWER
    write_answer(ANSWER, AnswerOutput.TABLE, BRIEF)
    shown = capsys.readouterr().out
    assert "rewards" in shown
    assert "offsets" not in shown


def test_a_person_sees_a_date_and_no_unit(capsys: pytest.CaptureFixture[str]) -> None:
    write_answer(ANSWER, AnswerOutput.TABLE)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "decided" in line]
    assert line.split() == ["decided", "at", "2026-11-26T11:44:23.081Z"]


@pytest.mark.parametrize("microseconds", [1_700_000_000_000_000, -(1 << 60)])
def test_a_number_that_is_no_date_is_shown_as_it_is(microseconds: int, capsys: pytest.CaptureFixture[str]) -> None:
    write_answer({"created_at_ms": microseconds}, AnswerOutput.TABLE)
    assert str(microseconds) in capsys.readouterr().out


@pytest.mark.parametrize("output", [ListOutput.TABLE, ListOutput.CSV])
def test_stored_data_does_not_steer_the_terminal(output: ListOutput, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows([{"value": "\x1b[2Jgone", "markup": "[red]plain[/red]", "nested": {"k": "\x9b2J"}}], output)
    shown = capsys.readouterr().out
    assert {"\x1b", "\x9b"}.isdisjoint(shown)
    assert "\\x1b[2Jgone" in shown
    assert "[red]plain[/red]" in shown


def test_json_has_numbers_with_all_their_digits(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows([{"decimal": Decimal("0.10"), "big": 2**70, "raw": b"\x00", "tuple": (1,)}], ListOutput.JSON)
    assert capsys.readouterr().out == '{"decimal":0.10,"big":1180591620717411303424,"raw":"\\\\x00","tuple":[1]}\n'


@pytest.mark.parametrize("output", [ListOutput.TABLE, ListOutput.CSV])
def test_a_field_of_a_value_that_is_named_as_one_of_its_row_is_shown_too(
    output: ListOutput, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows([{"key": "card-07", "value": {"key": "other", "Points": 2}}], output)
    heading, *rest = [line for line in capsys.readouterr().out.replace(",", " ").splitlines() if line.strip()]
    assert heading.replace("_", " ").split() == ["key", "key", "1", "Points"]
    assert rest[-1].split() == ["card-07", "other", "2"]
