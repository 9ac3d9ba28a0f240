"""Buttons on a task's page: the query page of the stores, and the Spark UI of the app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink

from dags.operators.settings import OperationsSettings

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class QueryPageLink(BaseOperatorLink):
    """Links to the first query node's page, which shows and queries the stores."""

    name = "Query page"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page's address; empty if no node is known. Called in the task's process once the task has ended."""
        del operator, ti_key
        return _settings().query_url


class SparkUiLink(BaseOperatorLink):
    """Links to the app's Spark UI, if it has one (`STOREKEEPER_SPARK_UI_PORT`)."""

    name = "Spark UI"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The page's address; empty if apps run without. Called in the task's process once the task has ended."""
        del operator, ti_key
        settings = _settings()
        return f"http://127.0.0.1:{settings.spark_ui_port}" if settings.spark_ui_port else ""


def _settings() -> OperationsSettings:
    return OperationsSettings()  # type: ignore[call-arg]
