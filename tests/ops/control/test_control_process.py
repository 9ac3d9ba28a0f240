"""A real process of the control API, and jobs of a toy program beside it."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx2
import pytest

from harness.tokens import write_callers
from harness.waiting import eventually
from storekeeper.clock import ManualClock, SystemClock
from storekeeper.errors import ConfigurationError
from storekeeper.node.security.access import Caller, Role, UnauthenticatedError, new_token
from storekeeper.node.settings import load_node_settings
from storekeeper.ops.control import server
from storekeeper.ops.control.jobs import Jobs, end_job_processes
from storekeeper.ops.control.server import run_control
from storekeeper.ops.errors import AlreadyRunningError
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.operations import exclusive
from storekeeper.ops.overview.processes import Probes
from storekeeper.ops.platform_apps import PlatformApps
from storekeeper.ops.programs import CONTROL
from storekeeper.ops.settings import PlatformSettings
from tests.ops.containers.prepared import prepared
from tests.ops.control.toys import ControlProcess, await_begin, await_end, began, let_end


@pytest.fixture
def control(tmp_path: Path) -> Iterator[ControlProcess]:
    running = ControlProcess(tmp_path / "run")
    running.start()
    yield running
    if running.process is not None and running.process.poll() is None:
        running.kill()
    end_job_processes(tmp_path / "run" / "jobs")


@pytest.mark.parametrize("way", ["killed", "stopped"])
def test_a_job_ends_with_the_control_process_and_runs_again(control: ControlProcess, tmp_path: Path, way: str) -> None:
    file = tmp_path / "one"
    control.put("one", "verify", str(file))
    pid = await_begin(file)
    if way == "killed":
        control.kill()
    else:
        assert control.stop() == 0
    await_end(pid)
    control.start()
    assert control.ask("GET", "/jobs/one").status_code == 404
    await_end(int(Path(f"{file}.child").read_text()))
    let_end(file)
    assert control.put("one", "verify", str(file))["state"] == "running"
    found = control.await_state("one", "succeeded")
    assert (found["result"], found["exit_code"], len(began(file))) == ({"rows": 3}, 0, 2)


def test_it_loads_no_code_of_an_app_and_under_150_of_our_modules(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    PlatformApps.configured().write(run_dir)
    control = ControlProcess(run_dir)
    control.start()
    for path in ("/status", "/overview", "/stores", "/programs", "/metrics", "/topology/pos", "/generations/pos"):
        assert control.ask("GET", path).status_code in {200, 503}, path
    assert control.ask("GET", "/tables/hadoop_export").json() == {"table": "hadoop_export", "waiting": None}
    control.put("one", "app", "stop", "pos")
    control.await_state("one", "failed")  # no supervisor runs here
    assert control.stop() == 0
    loaded = json.loads((run_dir / "loaded.json").read_text())
    assert "storekeeper.ops.control.app_actions" in loaded
    assert not [name for name in loaded if name.startswith(("spark_apps", "storekeeper.topology", "pyspark"))]
    assert len([name for name in loaded if name.partition(".")[0] == "storekeeper"]) < 150


@pytest.mark.parametrize("is_ours", [True, False])
def test_the_platforms_own_airflow_is_cleaned_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_ours: bool
) -> None:
    cleaned: list[str] = []
    twice = threading.Event()

    def remove_old_logs(layout: RunLayout, _: int) -> int:
        cleaned.append(f"logs of {layout.root}")
        return 0

    async def remove_old_runs(_layout: RunLayout, environment: Mapping[str, str], _: int) -> str | None:
        cleaned.append(
            environment.get("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", f"runs of {environment['STOREKEEPER_RUN_DIR']}")
        )
        if len(cleaned) == 4:
            twice.set()
        raise TimeoutError

    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "another database")
    for name, value in (("_CLEAN_AFTER_S", 0), ("_CLEAN_EVERY_S", 0.01)):
        monkeypatch.setattr(server, name, value)
    for function in (remove_old_logs, remove_old_runs):
        monkeypatch.setattr(server, function.__name__, function)
    (tmp_path / "airflow").mkdir()
    if is_ours:
        (tmp_path / "airflow" / "airflow.db").touch()
    jobs = Jobs(tmp_path / "jobs", {}, clock=SystemClock())

    async def serve() -> None:
        async with server._working(jobs, PlatformSettings.load(run_dir=tmp_path), SystemClock()):
            assert await asyncio.to_thread(twice.wait, 30 if is_ours else 0.2) is is_ours

    asyncio.run(serve())
    assert cleaned[:4] == [f"logs of {tmp_path}", f"runs of {tmp_path}"] * (2 if is_ours else 0)


def test_there_is_one_control_process_for_a_run_directory(tmp_path: Path) -> None:
    settings = PlatformSettings.load(run_dir=tmp_path)
    with (
        exclusive(RunLayout(tmp_path).jobs / "lock", "control"),
        pytest.raises(AlreadyRunningError, match="`storekeeper control`"),
    ):
        run_control(settings, "127.0.0.1", 1, SystemClock())


def test_on_loopback_it_takes_a_token_that_was_made_without_a_configured_file(tmp_path: Path) -> None:
    layout, token = RunLayout(tmp_path), new_token()
    callers = server._callers(layout, load_node_settings(), (clock := ManualClock()))
    with pytest.raises(UnauthenticatedError):
        callers.caller(f"Bearer {token}".encode())
    write_callers(layout.tokens, {token: Caller("airflow", frozenset({Role.OPERATOR}))})
    clock.advance(1000)
    assert callers.caller(f"Bearer {token}".encode()).name == "airflow"


def test_beyond_loopback_it_needs_what_a_node_needs(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="beyond loopback, needs TLS"):
        run_control(PlatformSettings.load(run_dir=tmp_path), "192.0.2.1", 1, SystemClock())


def test_beyond_loopback_it_tells_its_metrics_by_tls_to_a_monitor(tmp_path: Path) -> None:
    secrets = prepared(tmp_path / "containers") / "secrets"
    control = ControlProcess(
        tmp_path / "run",
        host="0.0.0.0",  # noqa: S104 (as in containers)
        variables={
            "STOREKEEPER_TLS_CERTIFICATE": str(secrets / "stream-apps.pem"),
            "STOREKEEPER_TLS_KEY": str(secrets / "stream-apps.key"),
            "STOREKEEPER_TOKENS_FILE": str(secrets / "tokens"),
        },
    )
    context = ssl.create_default_context(cafile=secrets / "ca.pem")
    try:
        control.start(context)
        with httpx2.Client(base_url=control.address, verify=context, trust_env=False, timeout=60) as client:
            token = (secrets / "prometheus-token").read_text()
            for header, status in ((None, 401), (f"{token}x", 401), (token, 200)):
                told = client.get("/metrics", headers={} if header is None else {"Authorization": f"Bearer {header}"})
                assert told.status_code == status
        assert "spark_app_up" in told.text
        reached = PlatformSettings.load(control_host="0.0.0.0", control_port=control.port)  # noqa: S104
        probes = Probes(reached)
        eventually(lambda: probes.problem(CONTROL) is None, 60, "`storekeeper status` knows that it works")
    finally:
        control.kill()
