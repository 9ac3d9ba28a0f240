"""The project around the product, as harnesses and tests run its apps from any folder."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_NAMED = tomllib.loads((ROOT / "storekeeper.toml").read_text("utf-8"))
TILLS = ",".join(_NAMED["apps"])
"""The apps of the tills, as the setting `apps` names them."""
SYSTEMS = ",".join(_NAMED["shared_apps"])
"""The apps that share a driver, as the setting `shared_apps` names them."""
SETTINGS = {"apps": TILLS, "shared_apps": SYSTEMS, "project_dir": str(ROOT)}
"""The settings that name all apps."""


def environment(**settings: str) -> dict[str, str]:
    """Settings as variables of the environment; without any, those that name all apps."""
    return {f"STOREKEEPER_{name.upper()}": value for name, value in (settings or SETTINGS).items()}
