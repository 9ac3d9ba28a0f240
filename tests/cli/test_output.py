from __future__ import annotations

import json
from typing import Any

import pytest

from storekeeper.cli.output import AnswerOutput, write_answer

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
