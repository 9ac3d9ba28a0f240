"""DAGs about tables that apps declare: the choice of tables, and the operator that updates them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import AssetAlias, BaseOperator, Param

from dags.operators.tables import EVERY_TABLE, table_asset
from storekeeper_provider.operators import StorekeeperJobOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

ALL_TABLES = "all"


def table_param(description: str, names: Sequence[str] = EVERY_TABLE, *, all_of_them: bool = False) -> Param:
    """The param `table` of a DAG: one of the names, or, where the DAG takes that, all of them."""
    choices = [*([ALL_TABLES] if all_of_them else []), *names]
    return Param(choices[0], type="string", enum=choices, title="Table", description=description)


class ChooseTablesOperator(BaseOperator):
    """Returns, for each chosen table, the arguments of its task: the command and the table's name.

    Args:
        command: the words in front of the table's name.
        selected: the table that the run is for, or "all". Templated.
        **kwargs: those of every operator.
    """

    template_fields: Sequence[str] = ("selected",)
    ui_color = "#e8e8e8"

    def __init__(self, *, command: Sequence[str], selected: str = "{{ params.table }}", **kwargs: Any) -> None:
        kwargs = {
            "task_id": "choose",
            "task_display_name": "Choose tables",
            "execution_timeout": timedelta(minutes=5),
            **kwargs,
        }
        super().__init__(**kwargs)
        self.command = list(command)
        self.selected = selected

    def execute(self, context: Context) -> list[list[str]]:
        """The arguments by table."""
        del context
        return [[*self.command, table] for table in EVERY_TABLE if self.selected in {ALL_TABLES, table}]


class TableOperator(StorekeeperJobOperator):
    """Runs a command that writes a Delta table, and updates the table's asset through the alias among its outlets.

    Args:
        table: the table; by default the last of `arguments`. Templated.
        **kwargs: those of `StorekeeperJobOperator`.
    """

    template_fields: Sequence[str] = (*StorekeeperJobOperator.template_fields, "table")

    def __init__(self, *, table: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table = table

    def on_over(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Called when the job is over; raises what `StorekeeperJobOperator` raises."""
        summary = super().on_over(context, event)
        if summary.get("published", True):  # a repeated verdict, for one, wrote nothing
            for alias in self.outlets:
                if isinstance(alias, AssetAlias):
                    context["outlet_events"][alias].add(table_asset(self.table or self.arguments[-1]))
        return summary
