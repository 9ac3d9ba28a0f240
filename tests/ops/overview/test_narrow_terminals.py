"""Situations in `status` at 80, 120 and 140 columns: the health of each row is always there."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console, RenderableType

from storekeeper.ops.overview.status import status_table
from storekeeper.ops.settings import PlatformSettings
from tests.ops.overview.situations import SITUATIONS, seen


def shown(what: RenderableType, width: int) -> list[str]:
    console = Console(width=width, record=True, file=StringIO())
    console.print(what)
    return [line.rstrip() for line in console.export_text().splitlines()]


@pytest.mark.parametrize("width", [80, 120, 140])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_status_shows_the_health_of_each_row_and_why(situation: str, width: int) -> None:
    assert len(SITUATIONS) == 15
    process = SITUATIONS[situation]
    lines = shown(status_table(seen(process), PlatformSettings.load(), width), width)
    assert max(map(len, lines)) <= width
    table = lines[: lines.index("")]
    rows = {line.split()[0]: line for line in table}
    assert lines[0].split()[:2] == ["process", "health"]
    assert rows["clicks"].split()[1] == rows["metrics"].split()[1] == "healthy"
    said = "healthy" if process.healthy else process.detail.partition(":")[0][:20]
    assert rows[process.name].removeprefix(process.name).lstrip().startswith(said)
    assert len(table) == 4, "a row is one line"
    if not process.healthy:
        whole = " ".join(lines[lines.index("") :])
        assert " ".join(f"{process.name}: {process.detail}".split()) in " ".join(whole.split())
