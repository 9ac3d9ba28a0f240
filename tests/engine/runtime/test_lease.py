from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import psutil
import pytest
import structlog.testing

from storekeeper.apps.errors import AppRunningError
from storekeeper.apps.settings import AppSettings
from storekeeper.clock import ManualClock
from storekeeper.engine.runtime.lease import TIMEOUT_S, Lease, job_lease, jobs_held
from storekeeper.errors import InvalidNameError
from storekeeper.generations.desired_state import generation_lease
from storekeeper.names import checked_name


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that would go on for an hour, instead of a JVM."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    yield process
    process.kill()
    process.wait()


def lease_on(path: Path) -> Lease:
    clock = ManualClock()
    return Lease(path, clock=clock, wait=lambda seconds: clock.advance(int(seconds * 1000)))


def left_behind(path: Path, pid: int, started_at_s: float) -> None:
    path.write_bytes(orjson.dumps({"pid": 1, "jvm_pid": pid, "jvm_started_at_s": started_at_s}))


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    with lease_on(tmp_path / "app.lock") as first:
        first.acquire(0)
        with pytest.raises(AppRunningError, match="app is running already"):
            lease_on(tmp_path / "app.lock").acquire(1)
    with lease_on(tmp_path / "app.lock") as second:
        second.acquire(0)


def test_a_job_waits_for_its_holder_as_long_as_it_takes(tmp_path: Path) -> None:
    settings, clock = AppSettings(run_dir=tmp_path), ManualClock()
    holder = Lease(settings.lease_file(job_lease("prices", "snapshot")), clock=clock, wait=lambda _: None)
    holder.acquire(0)

    def wait(_: float) -> None:
        clock.advance(60_000)
        if clock.monotonic_s() > 100 * TIMEOUT_S:
            holder.release()

    names = [job_lease(store, "snapshot") for store in ("prices", "orders", "prices")]
    with structlog.testing.capture_logs() as lines, jobs_held(names, settings, clock, wait=wait) as held:
        assert len(held) == 2
    assert clock.monotonic_s() > 100 * TIMEOUT_S
    assert [line["lease"] for line in lines] == ["prices@snapshot"], "it says once what it waits for"


def test_jobs_take_their_leases_in_one_order(tmp_path: Path) -> None:
    """Otherwise each of two could hold what the other one waits for."""
    settings, orders = AppSettings(run_dir=tmp_path), list[list[str]]()
    for names in (["b@x", "a@x"], ["a@x", "b@x"]):
        with jobs_held(names, settings, ManualClock()) as leases:
            orders.append([lease.name for lease in leases])
    assert orders[0] == orders[1]


def test_no_app_can_have_the_name_of_a_jobs_lease() -> None:
    assert checked_name("pos-seed")
    for name in (job_lease("pos", "seed"), generation_lease("pos", 1)):
        with pytest.raises(InvalidNameError):
            checked_name(name)


def test_the_lock_of_a_killed_holder_is_free(tmp_path: Path) -> None:
    path = tmp_path / "app.lock"
    program = f"""
import time
from pathlib import Path
from storekeeper.engine.runtime.lease import Lease
from storekeeper.clock import SystemClock
Lease(Path({str(path)!r}), clock=SystemClock(), wait=time.sleep).acquire(0)
print("held", flush=True)
time.sleep(3600)
"""
    holder = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(AppRunningError, match=f"as process {holder.pid}"):
        lease_on(path).acquire(0)
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with lease_on(path) as lease:
        lease.acquire(0)


def test_what_a_dead_holder_left_running_is_ended(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    left_behind(tmp_path / "app.lock", sleeper.pid, psutil.Process(sleeper.pid).create_time())
    clock = ManualClock()

    def wait(seconds: float) -> None:
        clock.advance(int(seconds * 1000))
        with contextlib.suppress(subprocess.TimeoutExpired):
            sleeper.wait(0.05)

    with Lease(tmp_path / "app.lock", clock=clock, wait=wait) as lease:
        lease.acquire(0)
        assert sleeper.poll() == -9


def test_another_process_with_the_same_pid_is_left_alone(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    left_behind(tmp_path / "app.lock", sleeper.pid, psutil.Process(sleeper.pid).create_time() - 3600)
    with lease_on(tmp_path / "app.lock") as lease:
        lease.acquire(0)
        assert sleeper.poll() is None


def test_the_holders_jvm_is_on_record_until_the_release(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    path = tmp_path / "app.lock"
    lease = lease_on(path)
    lease.acquire(0)
    lease.record_jvm(sleeper.pid)
    assert orjson.loads(path.read_bytes())["jvm_pid"] == sleeper.pid
    lease.release()
    lease.release()
    assert orjson.loads(path.read_bytes()) == {}


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"pid":1}', b'{"jvm_pid":99999999,"jvm_started_at_s":1}'])
def test_whatever_the_file_holds_the_lease_can_be_had(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "app.lock").write_bytes(content)
    with lease_on(tmp_path / "app.lock") as lease:
        lease.acquire(0)
