"""The generated supervisor configuration."""

from __future__ import annotations

import configparser
import shlex
import sys
from pathlib import Path

import pytest
from supervisor.options import ServerOptions

from harness.project_apps import SYSTEM_APPS
from storekeeper.errors import ConfigurationError
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.programs import platform_programs
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.supervisor import supervisor_conf, write_conf
from storekeeper.ops.supervisor_rpc import SupervisorCredentials

PASSWORD = "secret-of-the-test"


@pytest.fixture
def conf(tmp_path: Path) -> configparser.RawConfigParser:
    return _conf(tmp_path)


def _conf(run_dir: Path) -> configparser.RawConfigParser:
    settings = PlatformSettings.load(run_dir=run_dir, airflow="embedded")
    layout = RunLayout(settings.run_dir)
    credentials = SupervisorCredentials("http://127.0.0.1:19001", "storekeeper", PASSWORD)
    programs = platform_programs(layout, settings)
    parsed = configparser.RawConfigParser()
    parsed.read_string(supervisor_conf(layout, settings, credentials, programs))
    return parsed


def test_the_programs_are_the_named_ones_in_their_order(conf: configparser.RawConfigParser) -> None:
    programs = [name.removeprefix("program:") for name in conf.sections() if name.startswith("program:")]
    assert programs == [
        "kafka",
        *("airflow-api-server", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer"),
        *("pos", "hadoop_export", "shared_driver", "pos-next"),
        *(f"{name}-next" for name in SYSTEM_APPS),
        *("node-a", "node-b", "control"),
    ]


def test_an_app_is_kept_as_an_app_must_be(conf: configparser.RawConfigParser, tmp_path: Path) -> None:
    section = dict(conf["program:pos"])
    command = section.pop("command").split()
    assert command[0] == sys.executable
    assert command[3:] == [sys.executable, "-m", "storekeeper.cli.entry", "run", "pos"]
    assert section == {
        "directory": str(tmp_path),
        "autostart": "false",
        "autorestart": "unexpected",
        "exitcodes": "0,5,78",
        "startsecs": "0",
        "startretries": "1000",
        "stopsignal": "TERM",
        "stopwaitsecs": "60",
        "stopasgroup": "false",
        "killasgroup": "true",
        "redirect_stderr": "true",
        "stdout_logfile": str(tmp_path / "logs" / "pos.log"),
        "stdout_logfile_maxbytes": "10MB",
        "stdout_logfile_backups": "3",
    }


def test_a_node_is_told_its_name(conf: configparser.RawConfigParser) -> None:
    assert conf["program:node-b"]["command"].endswith("-m storekeeper.cli.entry node b")


def test_every_log_rotates_and_only_the_control_api_starts_by_itself(conf: configparser.RawConfigParser) -> None:
    for name in conf.sections():
        if name.startswith("program:"):
            assert conf[name]["stdout_logfile_maxbytes"] != "0"
            assert conf[name]["autostart"] == ("true" if name == "program:control" else "false")
            assert conf[name]["killasgroup"] == "true"


def test_xml_rpc_is_on_loopback_behind_the_password(conf: configparser.RawConfigParser) -> None:
    assert dict(conf["inet_http_server"]) == {
        "port": "127.0.0.1:19001",
        "username": "storekeeper",
        "password": PASSWORD,
    }


def test_no_command_holds_the_password(conf: configparser.RawConfigParser) -> None:
    holders = [name for name in conf.sections() for value in conf[name].values() if PASSWORD in value]
    assert holders == ["inet_http_server"]


def test_java_home_decides_which_java_runs_the_broker(conf: configparser.RawConfigParser) -> None:
    assert " java " in conf["program:kafka"]["command"]


@pytest.mark.parametrize("name", ["a b", "a#b", "a;b", "it's", 'a"b', "a\\b", "a$b", "a{b}", "a,b", "käse"])
def test_the_supervisor_reads_every_path_of_a_run_directory_as_it_is(tmp_path: Path, name: str) -> None:
    run_dir = tmp_path / name
    layout = RunLayout(run_dir)
    for folder in (layout.supervisor, layout.logs):
        folder.mkdir(parents=True)
    settings = PlatformSettings.load(run_dir=run_dir, airflow="none")
    write_conf(layout, settings, platform_programs(layout, settings))
    read = ServerOptions()
    read.realize(["-c", str(layout.supervisor_conf), "-n"])
    assert (read.directory, read.logfile) == (str(run_dir), str(layout.supervisor / "supervisord.log"))
    processes = [process for group in read.process_group_configs for process in group.process_configs]
    assert {process.directory for process in processes} == {str(run_dir)}
    (control,) = (process for process in processes if process.name == "control")
    assert control.stdout_logfile == str(layout.log("control"))
    assert shlex.split(control.command)[2] == str(layout.start_record("control"))


@pytest.mark.parametrize("name", ["a #b", "a ;b", "a\t#b", "b ", "a\nb", "a%b", "a%(here)sb"])
def test_a_path_that_the_supervisor_would_read_as_another_one_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="the supervisor can't read"):
        _conf(tmp_path / name)
