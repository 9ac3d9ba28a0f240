"""The program: exit codes, streams, help, and what its commands load."""

from __future__ import annotations

import errno
import importlib.metadata
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from confluent_kafka import KafkaError, KafkaException
from typer.testing import CliRunner, Result

from storekeeper.cli import entry
from storekeeper.cli import platform as cli
from storekeeper.cli.entry import missing_package
from storekeeper.ops.environment import inherited_environment
from storekeeper.ops.errors import NotSetUpError
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.operations import exclusive
from storekeeper.program import ExitCode, storekeeper_command
from storekeeper.run_dir import remember_started
from tests.ops.test_documents import all_commands, commands_of

_INTERRUPTED = """
import os, signal, sys
from storekeeper.cli import app, entry, platform
sys.argv = ["storekeeper", "{command}"]

def interrupt() -> None:
    try:
        os.kill(os.getpid(), signal.{name})
        signal.pause()
    finally:
        print("cleaned up")

app.upgrade_nodes = platform.up = platform.settings = interrupt
entry.main()
"""


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(storekeeper_command(*arguments), capture_output=True, text=True, check=False)


def _called(*arguments: str) -> Result:
    """A command in this process."""
    return CliRunner().invoke(entry.app, arguments)


@pytest.mark.parametrize(
    "words",
    ["get rewards --as-of -1h --revers", "fetch sales --from -1h -x", "diff rewards -1d --total"],
)
def test_a_misspelled_option_beside_a_time_is_no_key(words: str) -> None:
    done = _called(*words.split())
    assert (done.exit_code, "there is no such option" in done.output) == (ExitCode.USAGE, True)


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ("--as-of -1h -- rewards -k", "-k"),
        ("rewards --as-of -1h -- --revers", "--revers"),
        ("rewards - --as-of -1h", "-"),
    ],
)
def test_a_key_beside_a_time_may_look_like_an_option(words: str, key: str) -> None:
    command = typer.main.get_command(entry.app).get_command(None, "get")  # type: ignore[attr-defined]
    assert command.make_context("get", words.split()).params["key"] == key


def test_a_misspelled_option_in_front_of_such_a_key_is_none() -> None:
    done = _called("erase", "rewards", "--dry", "-1h", "--", "-k")
    assert (done.exit_code, "there is no such option" in done.output) == (ExitCode.USAGE, True)


def test_help_begins_with_examples() -> None:
    done = _run("--help")
    assert done.returncode == 0
    assert done.stdout.index("storekeeper new-project") < done.stdout.index("Options:")
    for command in ("up", "down", "status", "sql", "get", "fetch"):
        assert f"\n  {command} " in done.stdout


def test_version() -> None:
    assert _run("--version").stdout == f"storekeeper {importlib.metadata.version('storekeeper')}\n"


def test_wrong_usage_is_2() -> None:
    assert _called("up", "--no-such-option").exit_code == 2
    assert _called("sql", "SELECT 1", "--at", "rewards").exit_code == 2


@pytest.mark.usefixtures("called_here")
def test_what_can_not_be_verified_because_of_its_name_or_a_setting_is_78(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["storekeeper", "verify", "no-such-store"])
    with pytest.raises(SystemExit) as unknown:
        entry.main()
    monkeypatch.setenv("STOREKEEPER_TABLE_HISTORY_DAYS", "many")
    with pytest.raises(SystemExit) as wrong:
        entry.main()
    assert (unknown.value.code, wrong.value.code) == (ExitCode.CONFIGURATION, ExitCode.CONFIGURATION)
    told = capsys.readouterr().err
    assert "no-such-store" in told
    assert "STOREKEEPER_TABLE_HISTORY_DAYS" in told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("up", ": a platform that was not up before is stopped again"),
        ("upgrade-nodes", ": what was begun goes on, see `storekeeper status`"),
        ("settings", ""),
    ],
)
def test_an_interrupted_command_cleans_up_and_says_no_more_than_it_knows(
    number: signal.Signals, command: str, more: str
) -> None:
    code = _INTERRUPTED.replace("{name}", number.name).replace("{command}", command)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 128 + number
    assert done.stdout == "cleaned up\n"
    assert done.stderr == f"storekeeper: interrupted{more}\n"


def test_an_answer_that_nobody_reads_to_its_end_is_no_error_to_report() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = storekeeper_command("settings")
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_what_is_logged_is_kept_out_of_the_answer() -> None:
    code = (
        "import atexit, sys, structlog; from storekeeper.cli.entry import main; sys.argv = ['storekeeper', 'settings'];"
        "log = structlog.get_logger(); atexit.register(lambda: (log.info('not told'), log.warning('told')));"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("# Settings")
    assert "told" not in done.stdout.splitlines()[-1]
    assert "event=told" in done.stderr
    assert "not told" not in done.stderr


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (NotSetUpError("It is down: start it."), 1, "storekeeper: It is down: start it.\n"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "is full: free some space and run the command again"),
        (PermissionError(errno.EACCES, "Permission denied", "here"), 1, "storekeeper: Permission denied: here\n"),
        (KafkaException(KafkaError(KafkaError._TRANSPORT)), 75, "check that it runs where `kafka_bootstrap` says"),
        (ModuleNotFoundError(name="duckdb"), 78, 'pip install "storekeeper[sql]"'),
    ],
)
def test_an_error_is_one_sentence_on_standard_error(
    error: Exception, code: int, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(cli, "settings", fail)
    done = _called("settings")
    assert (done.exit_code, done.stdout) == (code, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [["down"], ["status"], ["sql", "SHOW TABLES"]])
def test_a_folder_without_a_platform_is_an_error(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    done = _called(*command)
    assert done.exit_code == ExitCode.CONFIGURATION
    assert done.stdout == ""
    assert f"no platform in {tmp_path}/.run" in done.stderr
    assert "set STOREKEEPER_RUN_DIR" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "program",
    [
        ["run", "ticks"],
        ["verify", "prices"],
        ["node", "a"],
    ],
)
def test_a_program_without_a_run_directory_ends_at_once(
    program: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    done = _run(*program)
    assert done.returncode == ExitCode.CONFIGURATION
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
    assert _called("down").stdout == f"Nothing was running in {platform}.\n"


def test_sql_reads_the_run_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    done = _called("sql", "SELECT 1 AS one", "--output", "json")
    assert done.stdout == '{"one":1}\n'
    unknown = _called("sql", "SELECT * FROM nothing")
    assert _called("sql", "SELECT 1 AS one", "-o", "csv").stdout == "one\n1\n"
    assert unknown.exit_code == 2
    assert unknown.stderr.startswith("storekeeper: ")
    assert "Traceback" not in unknown.stderr


def test_topology_shows_what_an_app_is_made_of() -> None:
    text = _called("topology", "pos").stdout
    assert text.endswith("Dead letters: topic pos-dlq\n")
    assert "repartition by shuffle" in text
    assert "store rewards" in text
    chart = _called("topology", "pos", "--output", "mermaid").stdout
    assert chart.startswith("flowchart TD\n")
    assert '("rewards")' in chart
    assert ">store rewards<" in _called("topology", "pos", "--output", "svg").stdout
    refused = _called("topology", "hadoop_export")
    assert refused.exit_code == ExitCode.CONFIGURATION
    assert "hadoop_export is not a topology" in refused.stderr


COMMANDS = dict(all_commands())


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_says_what_it_does_and_gives_an_example(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    assert not command.get_short_help_str(62).endswith("...")
    if not commands_of(command):
        assert f"Example: storekeeper {' '.join(path)}" in command.help


@pytest.mark.parametrize("path", [path for path, command in COMMANDS.items() if not commands_of(command)], ids=" ".join)
def test_the_example_of_a_command_can_be_used(path: tuple[str, ...]) -> None:
    (example,) = re.findall(r"Example: storekeeper (.*)", COMMANDS[path].help)
    words = shlex.split(example.partition(" > ")[0])
    COMMANDS[path].make_context(" ".join(path), words[len(path) :])


def test_only_the_program_itself_offers_shell_completion() -> None:
    assert "--install-completion" in _called("--help").stdout
    options = {option for command in COMMANDS.values() for parameter in command.params for option in parameter.opts}
    assert "--install-completion" not in options


def test_what_is_typed_is_completed() -> None:
    asked = {"_STOREKEEPER_COMPLETE": "complete_bash", "COMP_WORDS": "storekeeper snapshot ", "COMP_CWORD": "2"}
    program = "from storekeeper.cli.entry import app; app(prog_name='storekeeper')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=inherited_environment() | asked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["create", "restore", "optimize"], done.stderr


@pytest.mark.parametrize(
    ("arguments", "others"),
    [
        (("node", "not/a/name"), {"pyspark", "airflow", "storekeeper.apps.registry", "deltalake", "duckdb"}),
        (("run", "no-such-app"), {"airflow", "dags", "uvicorn", "great_expectations", "storekeeper.node.node"}),
        (
            ("get", "s", "k", "--node", "nowhere"),
            {"pyspark", "airflow", "storekeeper.apps.registry", "deltalake", "fastapi"},
        ),
        (("control", "--listen", "nowhere"), {"pyspark", "airflow", "storekeeper.apps.registry", "great_expectations"}),
        (("--help",), {"pyspark", "airflow", "great_expectations", "deltalake", "duckdb", "uvicorn", "supervisor"}),
    ],
)
def test_a_command_loads_only_what_it_needs(arguments: tuple[str, ...], others: set[str], tmp_path: Path) -> None:
    program = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules));"
        f"sys.argv[1:] = {arguments!r}; from storekeeper.cli.entry import main; main()"
    )
    environment = inherited_environment() | {"STOREKEEPER_RUN_DIR": str(tmp_path / "none")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert others & set(done.stdout.splitlines()[-1].split()) == set()


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("duckdb", "sql"),
        ("prometheus_client.core", "serve"),
        ("airflow.sdk", "airflow"),
        ("delta.tables", "spark"),
        ("great_expectations", "quality"),
        ("supervisor", "platform"),
    ],
)
def test_the_sentence_names_the_extra_that_brings_a_module(module: str, extra: str) -> None:
    sentence = missing_package(module)
    assert sentence is not None
    assert f'pip install "storekeeper[{extra}]"' in sentence


def test_a_module_that_no_extra_brings_has_no_sentence() -> None:
    assert missing_package("state.no_such_module") is None


@pytest.mark.parametrize("fails", [False, True])
def test_jars_are_fetched_and_sessions_start_faster_if_the_classes_can_be_archived(
    monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    did: list[str] = []

    def archive(_: object) -> None:
        did.append("archive")
        if fails:
            raise RuntimeError("no room")

    monkeypatch.setattr("storekeeper.ops.preflight.java_problem", lambda _: None)
    monkeypatch.setattr("storekeeper.ops.preflight.maven_problem", lambda _: None)
    monkeypatch.setattr("storekeeper.ops.jars.fetch.fetch_jars", lambda pom, _: did.append(pom))
    monkeypatch.setattr("storekeeper.engine.runtime.class_archive.make_archive", archive)
    done = _called("jars")
    assert (done.exit_code, sorted(did)) == (0, ["archive", "broker", "spark"])
    assert ("sessions start slower: no room" in done.stderr) is fails
