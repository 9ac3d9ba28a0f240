"""The program of the demo."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo import __main__ as program
from demo.report import DemoReport


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """A user's usual one, which is put back."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_the_report_is_its_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_demo(_: Path, *, report_path: Path, **_more: object) -> DemoReport:
        report = DemoReport(purchases=0, poison=0)
        report.write(report_path)
        return report

    monkeypatch.setattr(program, "run_demo", run_demo)
    monkeypatch.setattr("demo.__main__.signal.signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["demo", "--report", str(tmp_path / "report.json")])
    program.main()
    assert (tmp_path / "report.json").stat().st_mode & 0o077 == 0
