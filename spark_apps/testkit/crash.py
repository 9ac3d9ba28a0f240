"""A crash as a value in a test: at which step of a batch the app dies."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class Step(StrEnum):
    """The steps of a batch, in their order. An app that dies after any but the last runs the batch again."""

    PLAN = "plan"
    """Which records belong to the batch is written down."""
    STATE_WRITE = "state write"
    """The state after the batch is written, as a version of its own."""
    SINK_WRITE = "sink write"
    """The batch's output is in Kafka."""
    COMMIT = "commit"
    """The batch is done for good."""


@dataclass(frozen=True, slots=True)
class Crash:
    """The app dies right after `step`."""

    step: Step

    @classmethod
    def after(cls, step: str) -> Self:
        """A crash right after the step of that name.

        Raises:
            ValueError: there is no such step.
        """
        return cls(Step(step))
