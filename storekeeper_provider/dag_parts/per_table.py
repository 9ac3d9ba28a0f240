"""DAGs about tables that apps declare: the choice of tables, and the operator that updates them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias, Param

from storekeeper_provider.assets import delta_table
from storekeeper_provider.dag_parts.choose import ALL, ChooseOperator
from storekeeper_provider.dag_parts.runs import choice_param
from storekeeper_provider.operators import StorekeeperJobOperator
from storekeeper_provider.staged_rows import staged_table

if TYPE_CHECKING:
    from airflow.sdk import Context


def table_param(description: str, names: Iterable[str], *, all_of_them: bool = False) -> Param:
    """The param `table` of a DAG: one of the names, or, where the DAG takes that, all of them."""
    return choice_param("Table", description, [*([ALL] if all_of_them else []), *names])


class ChooseTablesOperator(ChooseOperator):
    """Chooses the tables whose staged rows started the run, or that its params name."""

    def __init__(self, *, selected: str = "{{ params.table }}", **kwargs: Any) -> None:
        super().__init__(selected=selected, **{"task_display_name": "Choose tables", **kwargs})

    def asset(self, name: str) -> Asset:
        """The staged table."""
        return staged_table(name)


class TableOperator(StorekeeperJobOperator):
    """Runs a command that writes Delta tables, and updates their assets through the alias among its outlets.

    Args:
        table: the table; by default those that the result names in `stores`, or the last of `arguments`. Templated.
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
            written = summary.get("stores") or [self.table or self.arguments[-1]]
            for alias in self.outlets:
                if isinstance(alias, AssetAlias):
                    for name in written:
                        context["outlet_events"][alias].add(delta_table(name))
        return summary


UPDATED_SNAPSHOTS = AssetAlias("delta_snapshots", group="delta")
"""Stands for the tables that a run of DAG `snapshot_stores` updates."""
UPDATED_TABLES = AssetAlias("delta_published", group="delta")
"""Stands for the tables that a run of DAG `check_tables` or `release_quarantined` updates."""
