"""The one-shot services of the compose file."""

from __future__ import annotations

from confluent_kafka import KafkaException

from deploy.airflow_client import AirflowClient
from deploy.credentials import AIRFLOW_USER, read_airflow_password
from deploy.errors import StartError
from deploy.layout import RunLayout
from deploy.settings import PlatformSettings
from deploy.topics import all_topics, ensure_topics, topics_there
from deploy.up import SCHEDULED_DAGS, START_APPS_DAG
from deploy.waiting import eventually

AIRFLOW_URL = "http://airflow-api-server:8080"
"""Where the compose file has Airflow."""


def begin_topics(settings: PlatformSettings) -> list[str]:
    """Makes the platform's topics and returns those that are new.

    Raises:
        StartError: the broker doesn't answer.
    """
    try:
        return ensure_topics(settings.kafka, all_topics(settings, topics_there(settings)))
    except KafkaException as error:
        msg = f"Kafka at {settings.kafka} doesn't answer ({error}): see the log of the service kafka."
        raise StartError(msg) from error


def begin_streams(settings: PlatformSettings, airflow_url: str) -> None:
    """Unpauses the scheduled DAGs and runs the one that starts the apps, to its end.

    Raises:
        StartError: Airflow didn't read its DAGs in time, or the run failed.
    """
    password = read_airflow_password(RunLayout(settings.run_dir))
    if password is None:
        msg = f"There is no Airflow password in {settings.run_dir}: run `storekeeper container prepare` first."
        raise StartError(msg)
    dags = (START_APPS_DAG, *SCHEDULED_DAGS)
    with AirflowClient(airflow_url, AIRFLOW_USER, password) as airflow:
        if not eventually(lambda: airflow.is_healthy() and all(map(airflow.has_dag, dags)), settings.start_timeout_s):
            broken = airflow.import_errors() if airflow.is_healthy() else [str(airflow.health())]
            msg = f"Airflow at {airflow_url} did not become ready ({'; '.join(broken) or 'DAGs are missing'})."
            raise StartError(msg)
        for dag in dags:
            airflow.unpause(dag)
        airflow.run(START_APPS_DAG, None, settings.start_timeout_s)
