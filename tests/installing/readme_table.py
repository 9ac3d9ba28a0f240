"""The README's table of extras."""

from __future__ import annotations

import re
from pathlib import Path

_README = Path(__file__).resolve().parents[2] / "README.md"
_ROW = re.compile(r"^\| `?(?P<extra>[a-z]+)`? \| (?P<adds>[^|]+) \| (?P<tries>`.*) \|$", re.MULTILINE)


def tries() -> dict[str, list[str]]:
    """The commands that the table gives for each extra."""
    section = _README.read_text().partition("## Install the package")[2].partition("\n## ")[0]
    return {row["extra"]: re.findall(r"`([^`]+)`", row["tries"]) for row in _ROW.finditer(section)}
