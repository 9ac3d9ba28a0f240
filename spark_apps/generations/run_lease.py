"""The lease of a running generation. Free of Spark."""

from __future__ import annotations


def generation_lease(app: str, number: int) -> str:
    """The name of the lease that is held while that generation of an app runs, or its checkpoint is changed."""
    return f"{app}-gen-{number}"
