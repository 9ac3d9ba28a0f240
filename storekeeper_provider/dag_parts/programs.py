"""The processes of apps: which a run is for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow.providers.standard.operators.branch import BaseBranchOperator
from airflow.sdk.exceptions import AirflowFailException

from storekeeper_provider import CONNECTION
from storekeeper_provider.hook import StorekeeperHook

if TYPE_CHECKING:
    from airflow.sdk import Context


ALL_APPS = "all"
SCALE = "scale"
ACTIONS = ("ensure", "start", "stop", "restart", SCALE, "upgrade")
"""The subcommands of `storekeeper app` that change one process."""


class ChooseProgramsOperator(BaseBranchOperator):
    """Lets the tasks of some processes run, and skips the others. Tasks are named after their processes.

    Args:
        selected: the process that the run is for, or "all": each that must run on the platform. Templated.
        action: one of `ACTIONS`. Templated.
        storekeeper_conn_id: the connection.
        **kwargs: those of every operator.
    """

    template_fields: Sequence[str] = ("selected", "action")
    ui_color = "#e8e8e8"

    def __init__(self, *, selected: str, action: str, storekeeper_conn_id: str = CONNECTION, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.selected = selected
        self.action = action
        self.storekeeper_conn_id = storekeeper_conn_id

    def choose_branch(self, context: Context) -> list[str]:
        """The processes' names.

        Raises:
            AirflowFailException: the platform lacks the process, or `scale` was selected for all. Nothing was changed.
            NoAnswerError: the platform doesn't answer.
        """
        del context
        if self.action == SCALE and self.selected == ALL_APPS:
            raise AirflowFailException("`scale` is for one app: choose it as `app`; nothing was changed")
        known = StorekeeperHook(self.storekeeper_conn_id).programs()
        if self.selected == ALL_APPS:
            return [program for program in known if program in self.downstream_task_ids]
        if self.selected not in known:
            msg = (
                f"{self.selected} is not part of this platform: name it in storekeeper.toml, in apps or shared_apps, "
                "and run `storekeeper up`"
            )
            raise AirflowFailException(msg)
        return [self.selected]
