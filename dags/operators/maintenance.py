"""The operators of the maintenance DAGs: a command of `spark_apps.maintenance`, an approval, a pause."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import BaseOperator

from dags.operators.spark_job import SparkJobOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

MODULE = "spark_apps.maintenance"
_FINDING_EXIT = 4


class MaintenanceOperator(SparkJobOperator):
    """Runs `python -m spark_apps.maintenance <arguments>`: short, without Spark, harmless to repeat.

    Args:
        arguments: the command and its arguments; empty ones are left out. Templated.
        finding: what it means when the command finds something to complain about.
        module: the module, if it is another one.
        **kwargs: those of every operator.
    """

    ui_color = "#dfe7f5"

    def __init__(self, *, arguments: list[str], finding: str = "refused", module: str = MODULE, **kwargs: Any) -> None:
        super().__init__(module=module, arguments=arguments, final_exit_codes={_FINDING_EXIT: finding}, **kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        """Runs the command; raises what `SparkJobOperator` raises."""
        self.arguments = [argument for argument in self.arguments if argument]
        return super().execute(context)


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
