"""The compose file as data."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

PROJECT = Path(__file__).resolve().parents[3]
OURS = "storekeeper:0.1.0"


@cache
def compose() -> dict[str, Any]:
    """The whole file, anchors and merges resolved."""
    return dict(yaml.safe_load((PROJECT / "docker-compose.yaml").read_text("utf-8")))


def services() -> dict[str, dict[str, Any]]:
    """The services by name."""
    return dict(compose()["services"])


def our_services() -> dict[str, dict[str, Any]]:
    """Those that run our image."""
    return {name: service for name, service in services().items() if service["image"] == OURS}
