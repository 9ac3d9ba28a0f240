"""The operators of migrations: steps of `storekeeper generation`, and the tasks between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import HITLBranchOperator
from airflow.sdk import BaseOperator, Param
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from storekeeper_provider import CONNECTION
from storekeeper_provider.dag_parts.names import Names
from storekeeper_provider.dag_parts.runs import choice_param
from storekeeper_provider.hook import StorekeeperHook
from storekeeper_provider.operators import StorekeeperJobOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

ASK = "ask"


def changeable_app(names: Names, description: str) -> Param:
    """A DAG param that takes one of the apps that can have generations."""
    return choice_param("App", description, names.changeable_apps)


class GenerationOperator(StorekeeperJobOperator):
    """As `StorekeeperJobOperator`, but each argument is split at blanks after rendering. Repeating it is harmless."""

    ui_color = "#e6dff5"

    def execute(self, context: Context) -> dict[str, Any]:
        """Runs the command; raises what `StorekeeperJobOperator` raises."""
        self.arguments = [word for argument in self.arguments for word in argument.split()]
        return super().execute(context)


def snapshot_after(step: str, *, task_id: str, task_display_name: str) -> GenerationOperator:
    """The task that snapshots an app's stores after another generation went live, so that SQL shows it at once.

    Args:
        step: the task that changed which generation is live, and pushed the app's own stores.
        task_id: of this task.
        task_display_name: of this task.
    """
    return GenerationOperator(
        task_id=task_id,
        task_display_name=task_display_name,
        arguments=["snapshot create", f"{{{{ ti.xcom_pull(task_ids='{step}')['stores'] | join(' ') }}}}"],
        execution_timeout=timedelta(hours=1),
    )


def not_live_after(step: str) -> str:
    """The option that names the generation that was not live after a step, for `retire`: another one may be by then.

    Args:
        step: the task that took the step.
    """
    result = f"(ti.xcom_pull(task_ids='{step}') or {{}})"
    number = f"({result}.get('candidate') or {result}.get('standby'))"
    return f"{{{{ '--generation %d' | format({number}) if {number} else '' }}}}"


class HealthyAfterwardsOperator(BaseOperator):
    """Checks after a hand-over that the expected generation is live, and that its process runs.

    Args:
        app: the app. Templated.
        live: the generation that should be live. Templated.
        storekeeper_conn_id: the connection.
        **kwargs: those of every operator.
    """

    template_fields: Sequence[str] = ("app", "live")
    ui_color = "#e6dff5"

    def __init__(self, *, app: str, live: str, storekeeper_conn_id: str = CONNECTION, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.app = app
        self.live = live
        self.storekeeper_conn_id = storekeeper_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Checks once.

        Raises:
            AirflowFailException: another generation is live, or the process doesn't run.
        """
        del context
        status = StorekeeperHook(self.storekeeper_conn_id).generations(self.app)
        if str(status["live"]) != self.live:
            msg = f"generation {status['live']} is live and not {self.live}, which was rolled back meanwhile"
            raise AirflowFailException(msg)
        check_process(status, self.app)
        return status


class DecideOperator(HITLBranchOperator):
    """Asks somebody how to continue, unless the run's params already say so.

    Args:
        decided: "ask", or the option to take without asking. Templated.
        **kwargs: those of `HITLBranchOperator`; every option must be in `options_mapping`.
    """

    template_fields: Sequence[str] = ("subject", "body", "decided")

    def __init__(self, *, decided: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.decided = decided

    def execute(self, context: Context) -> Any:
        """Asks, unless it is decided."""
        if self.decided == ASK:
            return super().execute(context)
        self.log.info("the params of this run say: %s", self.decided)
        return self.do_branch(context=context, branches_to_execute=[self.options_mapping[self.decided]])


class SkipUnlessOperator(BaseOperator):
    """Skips itself and the tasks downstream unless `wanted` renders to "True".

    Args:
        wanted: whether to go on. Templated.
        **kwargs: those of every operator.
    """

    template_fields: Sequence[str] = ("wanted",)

    def __init__(self, *, wanted: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.wanted = wanted

    def execute(self, context: Context) -> None:
        """Skips unless wanted.

        Raises:
            AirflowSkipException: it isn't wanted.
        """
        del context
        if self.wanted != "True":
            raise AirflowSkipException("switched off by the params of this run")


def check_process(status: Mapping[str, Any], program: str) -> None:
    """Checks by its heartbeat that a process of an app is healthy.

    Raises:
        AirflowFailException: it isn't.
    """
    process = status["processes"].get(program)
    if process is None or process["problem"] is not None:
        msg = f"{program} doesn't run: {process}. Run the DAG `rollback_state`, or repair the app and clear this task"
        raise AirflowFailException(msg)
