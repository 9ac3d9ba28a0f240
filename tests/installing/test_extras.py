"""The commands of the guide to install run with their extra alone, from a wheel, in an environment of its own."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import deltalake
import httpx2
import pyarrow as pa
import pytest

from harness.broker import Broker
from harness.distributions import ROOT
from harness.ports import free_ports
from harness.waiting import eventually
from storekeeper.apps.settings import AppSettings
from storekeeper.engine.runtime.heartbeat import AppState, read_heartbeat
from tests.installing.conftest import Install
from tests.installing.environment import Environment, Wheels, required
from tests.installing.extras_table import tries

TRIES = tries()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS, VERSION = PROJECT["optional-dependencies"], PROJECT["version"]
_START_S = 240.0


def environment(installed: Environment, folder: Path, **settings: str) -> dict[str, str]:
    """The variables of a user who has only this environment, and works in `folder` on a run directory in it."""
    (folder / "run").mkdir(exist_ok=True)
    tools = {str(Path(found).parent) for name in ("java", "mvn", "bash") if (found := shutil.which(name))}
    return {
        "HOME": str(folder),
        "PATH": ":".join([str(installed.bin), *sorted(tools), "/usr/bin", "/bin"]),
        "STOREKEEPER_RUN_DIR": str(folder / "run"),
        **settings,
    }


def call(command: str, folder: Path, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a command line of the guide to its end."""
    return subprocess.run(
        _words(command, variables),
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=_START_S,
    )


@contextmanager
def running(command: str, folder: Path, variables: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a command line that goes on until TERM, and expects it to end well."""
    with (folder / "output.log").open("ab") as log:
        process = subprocess.Popen(_words(command, variables), cwd=folder, env=variables, stdout=log, stderr=log)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(_START_S) == 0
    except BaseException:
        sys.stderr.write((folder / "output.log").read_text()[-4000:])
        raise
    finally:
        process.kill()
        process.wait()


def _words(command: str, variables: Mapping[str, str]) -> list[str]:
    program, *rest = shlex.split(command)
    found = shutil.which(program, path=variables["PATH"])
    assert found is not None, f"{program} is not installed"
    return [found, *rest]


def test_the_table_names_every_extra() -> None:
    assert TRIES.keys() - {"none"} == EXTRAS.keys() - {"dev"}


def test_the_package_without_an_extra_is_light(wheels: Wheels) -> None:
    names = {found.metadata["Name"].lower() for found in required("storekeeper", wheels).others}
    assert (
        names & {"apache-airflow", "deltalake", "duckdb", "fastapi", "numpy", "pandas", "pyarrow", "pyspark"} == set()
    )
    assert len(names) < 50


@pytest.mark.parametrize("extra", sorted(EXTRAS.keys() - {"dev"}))
def test_the_program_and_the_public_names_need_no_other_extra(install: Install, extra: str, tmp_path: Path) -> None:
    variables = environment(install(extra), tmp_path)
    version = call("storekeeper --version", tmp_path, variables)
    assert (version.stdout, version.stderr) == (f"storekeeper {VERSION}\n", "")
    names = call('python -c "from storekeeper import *; print(Store, topology_app)"', tmp_path, variables)
    assert names.returncode == 0, names.stderr


@pytest.mark.parametrize("extra", ["none", "quality", "redis", "registry", "test", "tracing"])
def test_the_line_of_an_extra_runs(install: Install, extra: str, tmp_path: Path) -> None:
    for command in TRIES[extra]:
        done = call(command, tmp_path, environment(install(extra), tmp_path))
        assert done.returncode == 0, done.stderr


def test_the_bare_package_has_topologies_and_clients(install: Install, tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "how-to" / "install.md").read_text().partition("```python\n")[2].partition("```")[0]
    (tmp_path / "sample.py").write_text("from storekeeper import StateClient\n" + guide)
    done = call("python sample.py", tmp_path, environment(install("none"), tmp_path))
    assert done.stdout == "[('alice', 139.46), ('bob', 51.99)]\n", done.stderr


def test_the_app_of_the_readme_needs_the_bare_package_alone(install: Install, tmp_path: Path) -> None:
    code = (ROOT / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
    assert len([line for line in code.splitlines() if line]) <= 10
    (tmp_path / "points.py").write_text(code)
    done = call("python points.py", tmp_path, environment(install("none"), tmp_path))
    assert done.stdout == "[('alice', 159)]\n", done.stderr


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ('storekeeper sql "SHOW TABLES"', "sql"),
        ("storekeeper node a", "serve"),
        ("storekeeper export-dags dags", "airflow"),
        ("storekeeper up", "platform"),
    ],
)
def test_a_command_names_the_extra_that_it_lacks(install: Install, tmp_path: Path, command: str, extra: str) -> None:
    done = call(command, tmp_path, environment(install("none"), tmp_path))
    assert done.returncode == 78
    assert f'pip install "storekeeper[{extra}]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_sql_reads_a_table(install: Install, tmp_path: Path) -> None:
    table = pa.table({"card": ["4836051607"]})
    deltalake.write_deltalake(str(tmp_path / "run" / "delta" / "cards"), table)
    (command,) = TRIES["sql"]
    done = call(command, tmp_path, environment(install("sql"), tmp_path))
    assert "cards" in done.stdout, done.stderr


def test_airflow_parses_every_dag(install: Install, tmp_path: Path) -> None:
    (command,) = TRIES["airflow"][:1]
    variables = environment(install("airflow"), tmp_path)
    assert call(command, tmp_path, variables).returncode == 0
    variables |= {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }
    (tmp_path / "parse.py").write_text(
        "from airflow.dag_processing.dagbag import DagBag\n"
        "bag = DagBag()\n"
        "assert bag.import_errors == {}, bag.import_errors\n"
        "print('parsed:', *sorted(bag.dags))\n"
    )
    done = call("python parse.py", tmp_path, variables)
    assert done.returncode == 0, done.stderr
    dags = sorted(
        path.stem for path in (ROOT / "storekeeper_provider" / "dags").glob("*.py") if path.stem != "__init__"
    )
    assert done.stdout.splitlines()[-1] == " ".join(["parsed:", *dags])


@pytest.mark.broker
def test_a_node_serves(install: Install, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("installed-changelog", 1, {"cleanup.policy": "compact"})
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    variables = environment(
        install("serve"),
        tmp_path,
        STOREKEEPER_KAFKA_BOOTSTRAP=broker.bootstrap,
        STOREKEEPER_STORES="installed=installed-changelog",
        STOREKEEPER_PEERS=f"a={address}",
    )
    (command,) = TRIES["serve"]
    with running(command, tmp_path, variables) as process, httpx2.Client() as http:

        def ready() -> bool:
            assert process.poll() is None, "the node ended"
            return _answers(http, f"{address}/readyz")

        eventually(ready, _START_S, "the node is ready")
        assert http.get(f"{address}/state/keyvalue/installed/nobody").status_code == 404


def _answers(http: httpx2.Client, address: str) -> bool:
    try:
        return http.get(address).status_code == 200
    except httpx2.TransportError:
        return False


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.long("`make setup` fetches the jars by the same code; test_session.py runs against them")
def test_jars_are_fetched_and_an_app_runs_against_them(install: Install, broker: Broker, tmp_path: Path) -> None:
    variables = environment(
        install("spark"),
        tmp_path,
        STOREKEEPER_KAFKA_BOOTSTRAP=broker.bootstrap,
        MAVEN_OPTS=f"-Dmaven.repo.local={Path.home() / '.m2' / 'repository'}",
    )
    project, jars, topics, app = TRIES["spark"]
    for command in (project, jars, topics):
        done = call(command, tmp_path, variables)
        assert done.returncode == 0, done.stderr
    assert any((tmp_path / ".local" / "share" / "storekeeper" / "jars" / "spark").glob("*.jar"))
    settings = AppSettings(run_dir=tmp_path / "run")
    with running(app, tmp_path, variables) as process:

        def started() -> bool:
            assert process.poll() is None, "the app ended"
            beat = read_heartbeat(settings.heartbeat_file("page_views"))
            return beat is not None and beat.state is AppState.RUNNING

        eventually(started, _START_S, "the app runs")
