"""The provider as a part of the package `storekeeper`: Airflow wants it to bear the name of its distribution."""

from __future__ import annotations

from typing import Any

import storekeeper_provider


def get_provider_info() -> dict[str, Any]:
    """What Airflow wants to know of a provider."""
    return {**storekeeper_provider.get_provider_info(), "package-name": "storekeeper"}
