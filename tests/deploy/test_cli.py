"""The command line: exit codes, streams, help."""

from __future__ import annotations

import errno
import importlib.metadata
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deploy import cli
from deploy.errors import AlreadyRunningError
from deploy.layout import RunLayout
from deploy.operations import exclusive
from deploy.programs import CONFIGURATION_ERROR_EXIT
from state.run_dir import remember_started
from tests.integration.platform_process import STOREKEEPER

_INTERRUPTED = """
import os, signal, sys
from deploy import cli
sys.argv = ["storekeeper", "interrupt"]

@cli.app.command("interrupt")
def interrupt() -> None:
    try:
        os.kill(os.getpid(), signal.{name})
        signal.pause()
    finally:
        print("cleaned up")

cli.main()
"""


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([STOREKEEPER, *arguments], capture_output=True, text=True, check=False)


def test_help_begins_with_examples() -> None:
    done = _run("--help")
    assert done.returncode == 0
    assert done.stdout.index("storekeeper demo") < done.stdout.index("Options:")
    for command in ("up", "down", "status", "demo", "sql", "get", "scan"):
        assert f"\n  {command} " in done.stdout


def test_version() -> None:
    assert _run("--version").stdout == f"storekeeper {importlib.metadata.version('storekeeper')}\n"


def test_wrong_usage_is_2() -> None:
    assert _run("up", "--no-such-option").returncode == 2
    assert _run("demo", "--poison", "-1").returncode == 2
    assert _run("sql", "SELECT 1", "--at", "rewards").returncode == 2


def test_what_can_not_be_verified_because_of_its_name_or_a_setting_is_78(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["storekeeper", "verify", "no-such-store"])
    with pytest.raises(SystemExit) as unknown:
        cli.main()
    monkeypatch.setenv("STOREKEEPER_TABLE_HISTORY_DAYS", "many")
    with pytest.raises(SystemExit) as wrong:
        cli.main()
    assert (unknown.value.code, wrong.value.code) == (CONFIGURATION_ERROR_EXIT, CONFIGURATION_ERROR_EXIT)
    told = capsys.readouterr().err
    assert "no-such-store" in told
    assert "STOREKEEPER_TABLE_HISTORY_DAYS" in told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_cleans_up_and_says_so(number: signal.Signals) -> None:
    code = _INTERRUPTED.replace("{name}", number.name)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 128 + number
    assert done.stdout == "cleaned up\n"
    assert done.stderr == "storekeeper: Interrupted; what this command had started is stopped.\n"


def test_what_is_logged_is_kept_out_of_the_answer() -> None:
    code = (
        "import atexit, sys, structlog; from deploy.entry import main; sys.argv = ['storekeeper', 'settings'];"
        "log = structlog.get_logger(); atexit.register(lambda: (log.info('not told'), log.warning('told')));"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("# Settings")
    assert "told" not in done.stdout.splitlines()[-1]
    assert "event=told" in done.stderr
    assert "not told" not in done.stderr


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (AlreadyRunningError("It is down: start it."), "storekeeper: It is down: start it.\n"),
        (OSError(errno.ENOSPC, "No space left on device"), "is full: free some space and run the command again"),
    ],
)
def test_an_error_is_one_sentence_on_standard_error(
    error: Exception, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(cli, "app", fail)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert sentence in output.err
    assert output.err.count("\n") == 1


@pytest.mark.parametrize("command", [["down"], ["status"], ["sql", "SHOW TABLES"], ["dashboard", "--count", "1"]])
def test_a_folder_without_a_platform_is_an_error(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    done = _run(*command)
    assert done.returncode == CONFIGURATION_ERROR_EXIT
    assert done.stdout == ""
    assert f"no platform in {tmp_path}/.run" in done.stderr
    assert "set STOREKEEPER_RUN_DIR" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "program",
    [
        ["spark_apps", "run", "ticks"],
        ["spark_apps.maintenance", "verify", "prices"],
        ["state.node", "--name", "a"],
        ["quality", "list"],
    ],
)
def test_a_program_without_a_run_directory_ends_at_once(
    program: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    done = subprocess.run([sys.executable, "-m", *program], capture_output=True, text=True, check=False)
    assert done.returncode == CONFIGURATION_ERROR_EXIT
    assert f"no platform in {tmp_path}/.run" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_command_in_another_folder_finds_the_platform_that_was_started_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform, elsewhere = tmp_path / "platform" / ".run", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with exclusive(RunLayout(platform).lock, "up"):
        pass
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    remember_started(platform)
    monkeypatch.chdir(elsewhere)
    assert _run("down").stdout == f"Nothing was running in {platform}.\n"


def test_sql_reads_the_run_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    done = _run("sql", "SELECT 1 AS one", "--json")
    assert done.stdout == '{"columns":[{"name":"one","type":"INTEGER"}],"rows":[{"one":1}]}\n'
    unknown = _run("sql", "SELECT * FROM nothing")
    assert unknown.returncode == 1
    assert unknown.stderr.startswith("storekeeper: ")
    assert "Traceback" not in unknown.stderr


def test_topology_shows_what_an_app_is_made_of() -> None:
    text = _run("topology", "pos").stdout
    assert "repartition by shuffle" in text
    assert "store rewards" in text
    chart = _run("topology", "pos", "--as", "mermaid").stdout
    assert chart.startswith("flowchart TD\n")
    assert '("rewards")' in chart
    assert ">store rewards<" in _run("topology", "pos", "--as", "svg").stdout
    refused = _run("topology", "hadoop_export")
    assert refused.returncode == CONFIGURATION_ERROR_EXIT
    assert "hadoop_export is not a topology" in refused.stderr
