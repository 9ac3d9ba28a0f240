"""The processes of apps: which must run now, and which a run is for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow.providers.standard.operators.branch import BaseBranchOperator
from airflow.sdk.exceptions import AirflowFailException

from dags.operators.settings import OperationsSettings
from dags.operators.stream_app import AppAction
from dags.operators.supervisor_rpc import SupervisorRpc
from dags.operators.watched import watched_programs
from spark_apps.registry import KEPT_APPS, SHARED_DRIVER

if TYPE_CHECKING:
    from airflow.sdk import Context


ALL_APPS = "all"
PROGRAMS = {
    **{app.name: app.title for app in KEPT_APPS.values()},
    SHARED_DRIVER: "The smaller apps, which share a driver",
}
"""The titles of the processes, by name."""


class ChooseProgramsOperator(BaseBranchOperator):
    """Lets the tasks of some processes run, and skips the others. Tasks are named after their processes.

    Args:
        selected: the process that the run is for, or "all": each that must run here. Templated.
        action: an `AppAction`. Templated.
        **kwargs: those of every operator.
    """

    template_fields: Sequence[str] = ("selected", "action")
    ui_color = "#e8e8e8"

    def __init__(self, *, selected: str, action: str, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.selected = selected
        self.action = action

    def choose_branch(self, context: Context) -> list[str]:
        """The processes' names.

        Raises:
            AirflowFailException: this platform lacks the process, or `scale` was selected for all. Nothing was changed.
            SupervisorUnreachableError: the supervisor doesn't answer.
        """
        del context
        settings = OperationsSettings()  # type: ignore[call-arg]
        if self.action == AppAction.SCALE and self.selected == ALL_APPS:
            raise AirflowFailException("`scale` is for one app: choose it as `app`; nothing was changed")
        supervisor = SupervisorRpc.from_secret(settings.supervisor_secret)
        known = supervisor.names()
        if self.selected == ALL_APPS:
            return [program for program in watched_programs(known, settings.run_dir) if program in PROGRAMS]
        if self.selected not in known:
            msg = f"{self.selected} is no part of this platform: `storekeeper up --apps all` has every app"
            raise AirflowFailException(msg)
        return [self.selected]
