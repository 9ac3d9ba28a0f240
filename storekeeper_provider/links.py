"""Buttons on a task's page: the query page of the stores, and the Spark UI of an app. The connection has both."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from airflow.sdk import BaseOperatorLink

from storekeeper_provider import CONNECTION
from storekeeper_provider.hook import StorekeeperHook

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class _ConnectionLink(BaseOperatorLink):
    """Links to an address in the extra of the task's connection."""

    field: ClassVar[str]

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page's address; empty if the connection has none. Called in the task's process once it has ended."""
        del ti_key
        return StorekeeperHook(getattr(operator, "storekeeper_conn_id", CONNECTION)).connection_extra(self.field)


class QueryPageLink(_ConnectionLink):
    """Links to the page that shows and queries the stores."""

    name = "Query page"
    field = "query_page"


class SparkUiLink(_ConnectionLink):
    """Links to the app's Spark UI."""

    name = "Spark UI"
    field = "spark_ui"
