from __future__ import annotations

from pathlib import Path

import pytest

from spark_apps.apps.pos import POS
from spark_apps.runtime.scale import AppScale, read_scale, scaled, write_scale
from spark_apps.settings import AppSettings
from state.errors import ConfigurationError

ALL = AppScale(cores=3, memory_mb=2048, max_offsets_per_trigger=7)


def test_a_size_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STOREKEEPER_MAX_OFFSETS_PER_TRIGGER", "500")
    settings = POS.settings(AppSettings(run_dir=tmp_path))
    assert scaled(settings, "pos") == settings
    write_scale(settings.scale_file("pos"), ALL)
    found = scaled(settings, "pos")
    assert (found.spark_master, found.driver_memory, found.max_offsets_per_trigger) == ("local[3]", "2048m", 7)
    assert (found.max_cores, found.executor_memory) == (settings.max_cores, settings.executor_memory)
    assert scaled(settings, "ticks") == settings
    assert "generation" not in found.model_fields_set, "the journal decides about that"


def test_on_a_cluster_the_executors_are_scaled(tmp_path: Path) -> None:
    settings = AppSettings(run_dir=tmp_path, spark_master="spark://master:7077")
    found = ALL.applied(settings)
    assert (found.spark_master, found.max_cores, found.executor_memory) == (settings.spark_master, 3, "2048m")
    assert found.driver_memory == settings.driver_memory


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
