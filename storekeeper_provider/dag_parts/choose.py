"""The first task of a DAG with a mapped task: it chooses the stores or tables of the mapped ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

ALL = "all"
"""The choice that stands for every one."""


class ChooseOperator(BaseOperator):
    """Returns the arguments of each mapped task: the command and the names of stores or tables.

    It chooses those whose assets started the run, or those that the run's params name.

    Args:
        names: those to choose from.
        command: the words in front of the names.
        selected: the name that the run is for, or "all". Templated.
        **kwargs: those of every operator.
    """

    template_fields: Sequence[str] = ("selected",)
    ui_color = "#e8e8e8"

    def __init__(self, *, names: Sequence[str], command: Sequence[str], selected: str, **kwargs: Any) -> None:
        super().__init__(**{"task_id": "choose", "execution_timeout": timedelta(minutes=5), **kwargs})
        self.names = tuple(names)
        self.command = list(command)
        self.selected = selected

    @abstractmethod
    def asset(self, name: str) -> Asset:
        """The asset whose update starts a run for that name."""

    def everything(self) -> Sequence[str]:
        """What "all" stands for."""
        return self.names

    def grouped(self, names: Sequence[str]) -> list[list[str]]:
        """The chosen names of each mapped task: one each."""
        return [[name] for name in names]

    def execute(self, context: Context) -> list[list[str]]:
        """The arguments of each mapped task."""
        # Of assets and aliases; none in a run that no update started.
        updated = {asset.name for asset in (context.get("triggering_asset_events") or {}) if hasattr(asset, "name")}
        if updated:
            chosen = [name for name in self.names if self.asset(name).name in updated]
        else:
            chosen = [name for name in self.names if name == self.selected]
            chosen = list(self.everything()) if self.selected == ALL else chosen
        self.log.info("chosen: %s", ", ".join(chosen) or "none")
        return [[*self.command, *names] for names in self.grouped(chosen)]
