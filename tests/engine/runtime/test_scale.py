from __future__ import annotations

from pathlib import Path

import pytest

from spark_apps.pos import POS
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spark_properties import SparkProperties
from storekeeper.engine.runtime.scale import AppScale, read_scale, scaled, write_scale
from storekeeper.errors import ConfigurationError

ALL = AppScale(cores=3, memory_mb=2048, max_offsets_per_trigger=7)


def test_a_size_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STOREKEEPER_MAX_OFFSETS_PER_TRIGGER", "500")
    settings = POS.settings(AppSettings(run_dir=tmp_path))
    assert scaled(settings, "pos") == settings
    write_scale(settings.scale_file("pos"), ALL)
    found = scaled(settings, "pos")
    assert (found.spark_master, found.max_offsets_per_trigger) == ("local[3]", 7)
    assert found.spark == {"spark.driver.memory": "2048m"}
    assert scaled(settings, "ticks") == settings
    assert "generation" not in found.model_fields_set, "the journal decides about that"


def test_on_a_cluster_the_executors_are_scaled(tmp_path: Path) -> None:
    given = SparkProperties({"spark.driver.memory": "3g", "spark.executor.memory": "4g"})
    settings = AppSettings(run_dir=tmp_path, spark_master="spark://master:7077", spark=given)
    found = ALL.applied(settings)
    assert found.spark_master == settings.spark_master
    assert found.spark == {**given, "spark.cores.max": "3", "spark.executor.memory": "2048m"}


def test_nothing_left_to_say_leaves_no_file(tmp_path: Path) -> None:
    file = tmp_path / "scale" / "a.json"
    write_scale(file, ALL)
    assert read_scale(file) == ALL
    write_scale(file, AppScale())
    assert list(file.parent.iterdir()) == []
    assert read_scale(file) == AppScale()


@pytest.mark.parametrize("text", ["", "[]", '{"cores": 0}', '{"memory_mb": "lots"}', '{"kores": 1}'])
def test_a_file_that_says_something_else_keeps_the_app_from_starting(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ConfigurationError, match="holds no size of an app"):
        read_scale(tmp_path / "a.json")
