"""The names of the platform's own processes."""

from __future__ import annotations

import sys
from enum import StrEnum

KAFKA = "kafka"
AIRFLOW_PROGRAMS = ("airflow-api-server", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer")
AIRFLOW_COMMAND = (sys.executable, "-m", "storekeeper.ops.airflow_process")
"""Runs Airflow's own command with the arguments behind it."""
CONTROL = "control"
"""The process of the control API, which also exports the metrics of apps, snapshots and the quality gate."""


def node_program(node: str) -> str:
    """The supervisor's name for a query node."""
    return f"node-{node}"


class Kind(StrEnum):
    """What a process is."""

    BROKER = "broker"
    AIRFLOW = "Airflow"
    NODE = "node"
    APP = "app"
    CONTROL = "control"


def kind_of(name: str) -> Kind:
    """What the process of that name is."""
    if name == CONTROL:
        return Kind.CONTROL
    prefix, dash, _ = name.partition("-")
    known = {"airflow": Kind.AIRFLOW, "node": Kind.NODE} if dash else {KAFKA: Kind.BROKER}
    return known.get(prefix, Kind.APP)
