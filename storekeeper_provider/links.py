"""Buttons on a task's page: the query page of the stores, and the Spark UI of an app. The connection has both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink

from storekeeper_provider import CONNECTION
from storekeeper_provider.hook import StorekeeperHook

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class QueryPageLink(BaseOperatorLink):
    """Links to the page that shows and queries the stores."""

    name = "Query page"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page's address; empty if the connection has none. Called in the task's process once it has ended."""
        del ti_key
        return _extra(operator, "query_page")


class SparkUiLink(BaseOperatorLink):
    """Links to the app's Spark UI."""

    name = "Spark UI"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page's address; empty if the connection has none. Called in the task's process once it has ended."""
        del ti_key
        return _extra(operator, "spark_ui")


def _extra(operator: BaseOperator, name: str) -> str:
    return StorekeeperHook(getattr(operator, "storekeeper_conn_id", CONNECTION)).connection_extra(name)
