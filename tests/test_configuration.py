"""The configuration file: where it is found, what it may hold, and what overrides it."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from storekeeper.apps.settings import AppSettings
from storekeeper.configuration import Settings, configuration_file, own_file
from storekeeper.errors import ConfigurationError
from storekeeper.node.settings import load_node_settings
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.settings_reference import check_names, names
from storekeeper.program import ExitCode
from storekeeper.run_dir import LOCK, find_run_dir, own_run_dir


@pytest.fixture(autouse=True)
def _nothing_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CONFIG", "RUN_DIR"):
        monkeypatch.delenv(f"STOREKEEPER_{name}", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "project" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project" / "below")


def write(folder: Path, text: str, name: str = "storekeeper.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(0o644)
    return path


def run_dir(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / LOCK).touch()
    return path


def test_it_is_that_of_the_nearest_project_folder(tmp_path: Path) -> None:
    write(tmp_path, "replicas = 1\n")
    nearest = write(tmp_path / "project", "replicas = 3\n")
    assert configuration_file() == own_file() == nearest
    assert load_node_settings().replicas == 3
    assert find_run_dir() == own_run_dir() == tmp_path / "project" / ".run"


def test_a_run_directory_nearer_than_any_file_has_none(tmp_path: Path) -> None:
    write(tmp_path, "replicas = 3\n")
    run_dir(tmp_path / "project" / ".run")
    assert configuration_file() is None


def test_the_file_that_is_named_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(tmp_path / "project", "replicas = 3\n")
    other = write(tmp_path / "elsewhere", "replicas = 4\n", "other.toml")
    monkeypatch.setenv("STOREKEEPER_CONFIG", str(other))
    assert load_node_settings().replicas == 4
    monkeypatch.setenv("STOREKEEPER_CONFIG", "")
    assert load_node_settings().replicas == 1
    monkeypatch.setenv("STOREKEEPER_CONFIG", "gone.toml")
    with pytest.raises(ConfigurationError, match=r"no configuration file .*gone\.toml: correct STOREKEEPER_CONFIG"):
        load_node_settings()


def test_a_platform_goes_on_with_what_it_was_started_with(tmp_path: Path) -> None:
    own = write(tmp_path / "project", 'replicas = 3\nrun_dir = "state"\n')
    assert AppSettings().run_dir == tmp_path / "project" / "state"
    started_with = write(tmp_path / "project" / "state", "replicas = 5\n", "settings.toml")
    assert (configuration_file(), own_file()) == (started_with, own)
    assert (load_node_settings().replicas, load_node_settings().run_dir) == (5, tmp_path / "project" / "state")


def test_a_run_directory_that_is_named_has_settings_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Wherever the program runs, and whatever was started last."""
    mine, other = (run_dir(tmp_path / name / ".run") for name in ("mine", "other"))
    write(tmp_path / "project", "node_port = 1000\n")
    write(mine.parent, 'kafka_bootstrap = "mine:1"\nnode_port = 2000\n')
    write(other, 'kafka_bootstrap = "other:1"\n', "settings.toml")
    monkeypatch.setattr("storekeeper.configuration.find_run_dir", lambda: other)
    assert AppSettings(run_dir=mine).kafka_bootstrap == "mine:1"
    assert load_node_settings({"run_dir": mine}).peers == "a=http://127.0.0.1:2000,b=http://127.0.0.1:2001"
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(mine))
    assert AppSettings().kafka_bootstrap == "mine:1"
    write(mine, 'kafka_bootstrap = "started:1"\n', "settings.toml")
    assert AppSettings(run_dir=mine).kafka_bootstrap == AppSettings().kafka_bootstrap == "started:1"


def test_the_own_broker_is_where_the_configuration_has_it_also_for_commands(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As under systemd: the file is named, so the settings of the started platform are not read."""
    assert AppSettings().kafka_bootstrap == "127.0.0.1:19092"
    file = write(tmp_path / "elsewhere", "kafka_port = 7000\n")
    monkeypatch.setenv("STOREKEEPER_CONFIG", str(file))
    assert AppSettings().kafka_bootstrap == load_node_settings().kafka_bootstrap == "127.0.0.1:7000"
    assert PlatformSettings.load().starts_broker
    monkeypatch.setenv("STOREKEEPER_KAFKA_PORT", "7002")
    assert AppSettings().kafka_bootstrap == "127.0.0.1:7002"
    write(tmp_path / "elsewhere", 'kafka_port = 7000\nkafka_bootstrap = "theirs:1"\n')
    assert AppSettings().kafka_bootstrap == "theirs:1"
    assert not PlatformSettings.load().starts_broker


def test_nodes_are_where_the_platform_of_the_configuration_has_them(tmp_path: Path) -> None:
    assert load_node_settings().peers == "a=http://127.0.0.1:18101,b=http://127.0.0.1:18102"
    file = write(tmp_path / "project", 'node_names = ["x", "y", "z"]\nnode_port = 7000\n')
    assert load_node_settings().peer_addresses == {
        "x": "http://127.0.0.1:7000",
        "y": "http://127.0.0.1:7001",
        "z": "http://127.0.0.1:7002",
    }
    file.write_text('node_port = 7000\npeers = "n=http://elsewhere:1"\n')
    assert load_node_settings().peer_addresses == {"n": "http://elsewhere:1"}


def test_a_run_directory_that_may_not_be_entered_is_refused_with_what_helps(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    closed, stat = tmp_path / "closed", Path.stat

    def refusing(path: Path, **options: bool) -> os.stat_result:
        if path.parent == closed:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", refusing)
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(closed))
    with pytest.raises(ConfigurationError, match=r"Permission denied.*correct STOREKEEPER_RUN_DIR"):
        configuration_file()


def test_variables_override_it_and_arguments_override_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(tmp_path / "project", "replicas = 3\nmax_scans = 7\n")
    monkeypatch.setenv("STOREKEEPER_REPLICAS", "2")
    settings = load_node_settings({"memory_mib": 64})
    assert (settings.replicas, settings.max_scans, settings.memory_mib) == (2, 7, 64)


def test_paths_begin_at_the_folder_of_the_file_and_lists_are_lists(tmp_path: Path) -> None:
    write(tmp_path / "project", 'tokens_file = "secrets/tokens"\nstores = ["a=t", "b=u"]\n')
    settings = load_node_settings()
    assert settings.tokens_file == tmp_path / "project" / "secrets" / "tokens"
    assert list(settings.definitions) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("replicas = ", "can't be read as TOML"),
        ("replicas = 99", r"^`replicas` in {file} can't be used \(.*less than or equal to 16\): correct it\.$"),
    ],
)
def test_what_cannot_be_used_is_refused_by_its_key_and_file(tmp_path: Path, text: str, refusal: str) -> None:
    file = write(tmp_path / "project", text)
    with pytest.raises(ConfigurationError, match=refusal.format(file=re.escape(str(file)))):
        load_node_settings()


def test_what_cannot_be_used_is_refused_by_its_variable_if_that_decides(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(tmp_path / "project", "replicas = 3\n")
    monkeypatch.setenv("STOREKEEPER_REPLICAS", "99")
    with pytest.raises(ConfigurationError, match=r"^The variable STOREKEEPER_REPLICAS can't be used"):
        load_node_settings()
    monkeypatch.delenv("STOREKEEPER_REPLICAS")
    with pytest.raises(ConfigurationError, match=r"^The setting `max_scans` can't be used"):
        load_node_settings({"max_scans": -1})


def test_a_file_of_somebody_else_is_not_taken_by_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = write(tmp_path / "project", "replicas = 3\n")
    path.chmod(0o666)
    with pytest.raises(ConfigurationError, match="name it in STOREKEEPER_CONFIG"):
        load_node_settings()
    path.chmod(0o644)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    if path.stat().st_uid != 0:
        with pytest.raises(ConfigurationError, match="name it in STOREKEEPER_CONFIG"):
            load_node_settings()
    monkeypatch.setenv("STOREKEEPER_CONFIG", str(path))
    assert load_node_settings().replicas == 3


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("kafka_prot = 1", "no setting 'kafka_prot': did you mean kafka_port"),
        ("xyz = 1", "no setting 'xyz': `storekeeper settings`"),
        ("[nodes]\nreplicas = 1", "no setting 'nodes'"),
    ],
)
def test_a_key_that_is_no_setting_is_refused_by_every_command(tmp_path: Path, text: str, refusal: str) -> None:
    path = write(tmp_path / "project", text)
    with pytest.raises(ConfigurationError, match=refusal):
        check_names(path)
    done = subprocess.run(
        [sys.executable, "-m", "storekeeper.cli.entry", "settings"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (ExitCode.CONFIGURATION, "")
    assert refusal in done.stderr


def test_there_are_at_most_seventy_settings_each_of_a_class_of_its_own() -> None:
    assert len(names()) <= 70
    ours = [one for one in classes_below(Settings) if one.__module__.startswith("storekeeper.")]
    public = [one for one in ours if not one.__name__.startswith("_")]
    assert names() == {name for one in public for name in one.model_fields}


def classes_below(parent: type[Settings]) -> list[type[Settings]]:
    return [one for child in parent.__subclasses__() for one in (child, *classes_below(child))]
