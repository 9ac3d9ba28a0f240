"""Lineage for OpenLineage. Its packages are imported only by calls that they make themselves, so they are optional."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage


def operator_lineage(job: Mapping[str, Any]) -> OperatorLineage:
    """What a job has read and written, as the control API says: `inputs` and `outputs`, pairs of namespace and name."""
    from airflow.providers.openlineage.extractors import OperatorLineage  # noqa: PLC0415 (optional)

    return OperatorLineage(inputs=_datasets(job.get("inputs", ())), outputs=_datasets(job.get("outputs", ())))


def _datasets(named: Iterable[tuple[str, str]]) -> list[Any]:
    from openlineage.client.event_v2 import Dataset  # noqa: PLC0415 (optional)

    return [Dataset(namespace=namespace, name=name) for namespace, name in named]
