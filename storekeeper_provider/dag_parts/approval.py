"""Operators of DAGs that change data: an approval, a pause."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import BaseOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class ApproveUnlessWaivedOperator(ApprovalOperator):
    """Waits for an approval; a rejection skips what follows. Doesn't wait if `needed` renders to "False".

    Args:
        needed: whether to ask at all. Templated.
        **kwargs: those of `ApprovalOperator`.
    """

    template_fields: Sequence[str] = ("subject", "body", "needed")

    def __init__(self, *, needed: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.needed = needed

    def execute(self, context: Context) -> Any:
        """Asks, unless the run's params waive it."""
        if self.needed == "False":
            self.log.info("the params of this run waive the approval")
            return None
        return super().execute(context)


class PauseOperator(BaseOperator):
    """Waits without holding a worker.

    Args:
        minutes: how long. Templated.
        **kwargs: those of every operator.
    """

    template_fields: Sequence[str] = ("minutes",)

    def __init__(self, *, minutes: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.minutes = minutes

    def execute(self, context: Context) -> None:
        """Defers to the triggerer, unless there is nothing to wait for."""
        del context
        if float(self.minutes) > 0:
            self.defer(trigger=TimeDeltaTrigger(timedelta(minutes=float(self.minutes))), method_name="go_on")

    def go_on(self, context: Context, event: Any = None) -> None:
        """The pause is over."""
        del context, event
