from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from dags.operators.app_change import change_scale
from dags.operators.settings import OperationsSettings
from spark_apps.runtime.scale import AppScale, read_scale

NOTHING = {"cores": "None", "memory_mb": "None", "max_offsets_per_trigger": "None"}


def test_values_are_set_kept_and_forgotten(tmp_path: Path) -> None:
    settings = OperationsSettings(run_dir=tmp_path)  # type: ignore[call-arg]

    def change(**wanted: str) -> AppScale | None:
        return change_scale("pos", NOTHING | wanted, settings)

    def now() -> AppScale:
        return read_scale(settings.scale_file("pos"))

    assert change(cores="4", memory_mb="2048") == AppScale()
    assert now() == AppScale(cores=4, memory_mb=2048)
    assert change(cores="4") is None
    assert change(cores="0", max_offsets_per_trigger="9") == AppScale(cores=4, memory_mb=2048)
    assert now() == AppScale(memory_mb=2048, max_offsets_per_trigger=9)


def test_what_cannot_be_changes_nothing(tmp_path: Path) -> None:
    settings = OperationsSettings(run_dir=tmp_path)  # type: ignore[call-arg]
    with pytest.raises(AirflowFailException, match="`memory_mb` can't be used"):
        change_scale("pos", NOTHING | {"memory_mb": "100"}, settings)
    with pytest.raises(AirflowFailException, match="needs at least one of `cores`"):
        change_scale("pos", NOTHING, settings)
    assert list(tmp_path.iterdir()) == []
