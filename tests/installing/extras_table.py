"""The table of extras in the guide to install."""

from __future__ import annotations

import re
from pathlib import Path

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "install.md"
_ROW = re.compile(r"^\| `?(?P<extra>[a-z]+)`? \| (?P<adds>[^|]+) \| (?P<tries>`.*) \|$", re.MULTILINE)


def tries() -> dict[str, list[str]]:
    """The commands that the table gives for each extra."""
    section = _PAGE.read_text().partition("## Install the package")[2].partition("\n## ")[0]
    return {row["extra"]: re.findall(r"`([^`]+)`", row["tries"]) for row in _ROW.finditer(section)}
