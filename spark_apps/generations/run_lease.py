"""The lease that tells whether a generation runs. Free of Spark."""

from __future__ import annotations


def generation_lease(app: str, number: int) -> str:
    """The lease that is held while that generation of an app runs, or while its checkpoint is worked on."""
    return f"{app}-gen-{number}"
