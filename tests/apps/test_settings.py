from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from pydantic import ValidationError

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spark_properties import DEFAULT_JAVA_OPTIONS
from tests.local_tables import local_table


def test_the_environment_sets_fields(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("STOREKEEPER_MAX_DEAD_LETTER_SHARE", "0.05")
    monkeypatch.setenv("STOREKEEPER_GENERATION", "3")
    settings = AppSettings()
    assert settings.max_dead_letter_share == 0.05
    assert settings.checkpoint_dir("pos") == tmp_path / "checkpoints" / "pos" / "gen-3"


def test_every_path_lies_in_the_run_directory(tmp_path: Path) -> None:
    settings = AppSettings(run_dir=tmp_path)
    paths = [
        settings.checkpoint_dir("a"),
        local_table(settings, "a"),
        settings.heartbeat_file("a"),
        settings.lease_file("a"),
        settings.scratch_dir("a"),
    ]
    assert all(str(path).startswith(f"{tmp_path}/") for path in paths)
    assert len(set(paths)) == len(paths)


def test_a_relative_run_directory_is_made_absolute() -> None:
    assert AppSettings(run_dir=Path("somewhere")).run_dir == Path.cwd() / "somewhere"


@pytest.mark.parametrize(
    "wrong",
    [
        {"generation": 0},
        {"max_dead_letter_share": -1},
        {"spark": {"spark.master": "yarn"}},
    ],
    ids=str,
)
def test_values_that_cannot_work_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        AppSettings(**wrong)  # type: ignore[arg-type]


def test_every_setting_says_what_it_is_for() -> None:
    assert [name for name, item in AppSettings.model_fields.items() if not item.description] == []


def test_the_jvm_has_room_for_the_compiled_code_of_several_apps() -> None:
    """With one compiler it would have 48 MiB, and compile nothing more once they are full."""
    options = DEFAULT_JAVA_OPTIONS.split()
    command = ["java", *options, "-XX:+PrintFlagsFinal", "-version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (size,) = re.findall(r" ReservedCodeCacheSize += (\d+)", told)
    assert int(size) >= 200 << 20
