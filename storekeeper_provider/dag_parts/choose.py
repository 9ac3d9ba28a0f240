"""What a run of a DAG is for: stores, tables or processes of apps, and the mapped task that follows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.branch import BaseBranchOperator
from airflow.sdk import Asset, AssetAlias, BaseOperator, Param
from airflow.sdk.exceptions import AirflowFailException

from storekeeper_provider import CONNECTION, POOL
from storekeeper_provider.assets import delta_table
from storekeeper_provider.dag_parts.names import Names
from storekeeper_provider.dag_parts.runs import choice_param, operating
from storekeeper_provider.hook import StorekeeperHook
from storekeeper_provider.operators import StorekeeperJobOperator
from storekeeper_provider.staged_rows import staged_table

if TYPE_CHECKING:
    from airflow.sdk import Context

ALL = "all"
"""The choice that stands for every one."""


class ChooseOperator(BaseOperator):
    """Returns the arguments of each mapped task: the command and the names of stores or tables.

    It chooses those whose assets started the run, or those that the run's params name.

    Args:
        names: those to choose from.
        command: the words in front of the names. Templated.
        selected: the name that the run is for, or "all". Templated.
        **kwargs: those of every operator.
    """

    template_fields: Sequence[str] = ("command", "selected")
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


TASK_TIMEOUT = timedelta(minutes=30)
"""How long the task of one store, or of the stores of one app, may take."""


def per_store(names: Names) -> dict[str, Any]:
    """Arguments of a DAG for one store or all of them: one run at a time, done within the hour."""
    return {
        **operating(retries=2, done=timedelta(minutes=45), ended=timedelta(minutes=50), priority=1),
        "params": {
            "store": choice_param(
                "Store",
                "One store, or `all`: each store whose app has ever run on this platform.",
                [ALL, *names.stores],
            )
        },
    }


class ChooseStoresOperator(ChooseOperator):
    """Chooses the stores whose snapshots started the run, or that its params name.

    "all" means every store whose app has ever run in this run directory.

    Args:
        selected: the store that the run is for, or "all". Templated.
        storekeeper_conn_id: the connection.
        **kwargs: those of `ChooseOperator`.
    """

    def __init__(
        self, *, selected: str = "{{ params.store }}", storekeeper_conn_id: str = CONNECTION, **kwargs: Any
    ) -> None:
        super().__init__(selected=selected, **{"task_display_name": "Choose stores", **kwargs})
        self.storekeeper_conn_id = storekeeper_conn_id

    def asset(self, name: str) -> Asset:
        """The table of the store's snapshots."""
        return delta_table(name)

    def everything(self) -> list[str]:
        """The stores whose apps have ever run here."""
        return [store["store"] for store in StorekeeperHook(self.storekeeper_conn_id).stores() if store["has_run"]]


class ChooseStoresByAppOperator(ChooseStoresOperator):
    """Chooses as `ChooseStoresOperator` does. The stores of one app share a task."""

    def grouped(self, names: Sequence[str]) -> list[list[str]]:
        """The chosen stores of each app."""
        apps = {store["store"]: store["app"] for store in StorekeeperHook(self.storekeeper_conn_id).stores()}
        stores: dict[str, list[str]] = {}
        for name in names:
            stores.setdefault(apps.get(name, name), []).append(name)
        return list(stores.values())


def for_each_store(
    names: Names,
    *command: str,
    task_id: str,
    display_name: str,
    choose: type[ChooseStoresOperator] = ChooseStoresOperator,
    operator: type[StorekeeperJobOperator] = StorekeeperJobOperator,
    **options: Any,
) -> None:
    """Adds the choice of stores to the current DAG, and a mapped task that runs a command for the chosen stores.

    Args:
        names: the platform's.
        *command: the words in front of the stores' names. Templated; an empty one is left out.
        task_id: of the mapped task.
        display_name: of the mapped task.
        choose: chooses the stores, and which of them share a task.
        operator: runs the command; its `arguments` are the command and the stores' names.
        **options: further arguments of the operator.
    """
    chosen = choose(names=names.stores, command=command)
    mapped = operator.partial(
        task_id=task_id,
        task_display_name=display_name,
        map_index_template=f"{{{{ task.arguments[{len(command)}:] | join(', ') }}}}",
        execution_timeout=TASK_TIMEOUT,
        pool=POOL,  # of a mapped task, Airflow knows only what it is told here
        **options,
    )
    mapped.expand(arguments=chosen.output)


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
            tables = summary.get("stores") or {self.table or self.arguments[-1]: summary}
            written = [name for name, one in tables.items() if one.get("due", True)]
            for alias in self.outlets:
                if isinstance(alias, AssetAlias):
                    for name in written:
                        context["outlet_events"][alias].add(delta_table(name))
        return summary


UPDATED_SNAPSHOTS = AssetAlias("delta_snapshots", group="delta")
"""Stands for the tables that a run of DAG `snapshot_stores` updates."""
UPDATED_TABLES = AssetAlias("delta_published", group="delta")
"""Stands for the tables that a run of DAG `check_tables` or `release_quarantined` updates."""


ALL_APPS = "all"
SCALE = "scale"
ACTIONS = ("start", "stop", "restart", SCALE, "upgrade")
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
            raise AirflowFailException(
                f"{self.selected} is not part of this platform: name it in storekeeper.toml, in apps or shared_apps, "
                "and run `storekeeper up`"
            )
        return [self.selected]
