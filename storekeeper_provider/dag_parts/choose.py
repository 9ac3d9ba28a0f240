"""The first task of a DAG with a mapped task: it chooses what the mapped ones are for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

ALL = "all"
"""The choice that stands for every one."""


class ChooseOperator(BaseOperator):
    """Returns the arguments of each mapped task: the command and the name of a store or table. Subclasses choose.

    Args:
        command: the words in front of the name.
        selected: the name that the run is for, or "all". Templated.
        **kwargs: those of every operator.
    """

    template_fields: Sequence[str] = ("selected",)
    ui_color = "#e8e8e8"

    def __init__(self, *, command: Sequence[str], selected: str, **kwargs: Any) -> None:
        super().__init__(**{"task_id": "choose", "execution_timeout": timedelta(minutes=5), **kwargs})
        self.command = list(command)
        self.selected = selected

    @abstractmethod
    def chosen(self, context: Context) -> Sequence[str]:
        """The names that the run is for."""

    @staticmethod
    def updated(context: Context) -> set[str]:
        """The names of the assets and aliases whose updates started the run; none for any other run."""
        return {asset.name for asset in (context.get("triggering_asset_events") or {}) if hasattr(asset, "name")}

    def execute(self, context: Context) -> list[list[str]]:
        """The arguments by name."""
        return [[*self.command, name] for name in self.chosen(context)]
