"""Choosing the processes of stream apps that a run is for. A DAG has a task for each, of its name, behind this one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow.providers.standard.operators.branch import BaseBranchOperator
from airflow.sdk.exceptions import AirflowFailException

from dags.operators.settings import OperationsSettings
from dags.operators.stream_app import AppAction
from dags.operators.supervisor_rpc import SupervisorRpc
from dags.operators.watched_programs import watched_programs
from spark_apps.registry import KEPT_APPS, ON_DEMAND_APPS, TOGETHER
from spark_apps.sharing import sharing_apps

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.sdk import Context

ALL_APPS = "all"
PROGRAMS = {
    **{app.name: app.title for app in KEPT_APPS.values()},
    TOGETHER: "The smaller apps that share a process",
    **{app.name: app.title for app in ON_DEMAND_APPS.values()},
}
"""The titles of the processes, by name."""


class ChooseProgramsOperator(BaseBranchOperator):
    """Lets the tasks of some processes run, and skips the others.

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
            AirflowFailException: the action can't be done to what is selected; nothing was changed.
            SupervisorUnreachableError: the supervisor doesn't answer.
        """
        del context
        settings = OperationsSettings()  # type: ignore[call-arg]
        if self.action == AppAction.SCALE and self.selected in {ALL_APPS, TOGETHER}:
            raise AirflowFailException("`scale` is for one app: choose it as `app`; nothing was changed")
        supervisor = SupervisorRpc.from_secret(settings.supervisor_secret, timeout_s=settings.supervisor_timeout_s)
        known = supervisor.names()
        if self.selected == ALL_APPS:
            return [program for program in watched_programs(known, settings.run_dir) if program in PROGRAMS]
        why_not = why_it_does_not_run(self.selected, known, settings.run_dir)
        if why_not is not None:
            raise AirflowFailException(why_not)
        return [self.selected]


def why_it_does_not_run(program: str, known: Sequence[str], run_dir: Path) -> str | None:
    """Why a process has no place in this platform, and what to do instead; None if it has.

    Args:
        program: its name.
        known: the programs that the supervisor has.
        run_dir: where the journals of generations are.
    """
    if program not in known:
        return f"{program} is no part of this platform: `storekeeper up --apps all` has every app"
    sharing = sharing_apps(run_dir)
    if program in sharing:
        return f"{program} shares the process `{TOGETHER}` with others: choose that as `app`"
    if program == TOGETHER and not sharing:
        return "each of the smaller apps runs by itself: choose one of them as `app`"
    return None
