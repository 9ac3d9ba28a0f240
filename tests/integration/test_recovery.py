"""The procedures of back-up-and-recover.md, followed on a platform with an app of one's own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from confluent_kafka.admin import AdminClient

from deploy.layout import RunLayout
from deploy.supervisor import stop_everything
from deploy.waiting import eventually
from harness.topics import write_topic
from spark_apps.new_app.plan import plan_new_app, write_new_app
from state.client import StateClient
from tests.integration.platform_process import PlatformProcess

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow, pytest.mark.timeout(2400)),
    pytest.mark.long("test_lost_topics.py and test_bring_up.py have it without processes"),
]

APP, CHANGELOG, SECONDS = "page_views", "page_views-totals-changelog", 180
KEYS = [f"k{number}" for number in range(50)]
EVENTS = [(key.encode(), b'{"Amount": %d}' % amount) for amount in (1, 2) for key in KEYS]


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[PlatformProcess]:
    """It runs, and its app has counted each key's events."""
    write_new_app(plan_new_app(APP), tmp_path)
    (tmp_path / "storekeeper.toml").write_text("")
    own = {"own_apps": f"{APP}.app:{APP.upper()}", "own_apps_dir": str(tmp_path), "apps": "own"}
    made = PlatformProcess.in_folder(tmp_path / "run", **own)
    try:
        up(made)
        write_topic(address(made), f"{APP}-events", EVENTS)
        assert eventually(lambda: counted(made), SECONDS)
        yield made
    finally:
        stop_everything(RunLayout(made.run_dir))


def up(platform: PlatformProcess, *options: str, code: int = 0) -> str:
    done = platform.call("up", *options, timeout_s=1000)
    assert done.returncode == code, done.stderr
    return done.stderr


def down(platform: PlatformProcess) -> None:
    assert platform.call("down").returncode == 0


def configure(platform: PlatformProcess, generation: int) -> None:
    """What a person writes into the configuration file."""
    (platform.run_dir.parent / "storekeeper.toml").write_text(f"generation = {generation}\n")


def address(platform: PlatformProcess) -> str:
    return f"127.0.0.1:{platform.environment['STOREKEEPER_KAFKA_PORT']}"


def nodes(platform: PlatformProcess) -> list[str]:
    first = int(platform.environment["STOREKEEPER_NODE_PORT"])
    return [f"http://127.0.0.1:{port}" for port in (first, first + 1)]


def counted(platform: PlatformProcess) -> bool:
    """Whether each key has the total that its events give."""
    with StateClient(nodes(platform)) as client:
        totals = client.key_value("totals")
        return all((totals.get(key).value or {}).get("Total") == 3 for key in KEYS)


def ready(node: str) -> httpx2.Response:
    return httpx2.get(f"{node}/readyz", trust_env=False, timeout=10)


def test_a_changelog_is_lost(platform: PlatformProcess) -> None:
    admin = AdminClient({"bootstrap.servers": address(platform)})
    (gone,) = admin.delete_topics([CHANGELOG]).values()
    gone.result(timeout=30)
    for node in nodes(platform):
        assert eventually(lambda node=node: ready(node).json()["status"] == "lost", SECONDS)  # type: ignore[misc]
    assert counted(platform), "nodes answer from the rows that they have"
    first = next(line for line in up(platform, code=4).splitlines() if line.startswith(f"{APP}:"))
    assert f"{CHANGELOG} (deleted)" in first
    assert CHANGELOG not in admin.list_topics(timeout=30).topics, "nothing was made anew"
    down(platform)
    configure(platform, 2)
    asked = platform.call("create-topics", "--dry-run").stdout
    assert f"{CHANGELOG}-g2" in asked
    up(platform)
    assert eventually(lambda: counted(platform), SECONDS), "computed again from the input"
    up(platform)


def test_kafkas_data_is_lost(platform: PlatformProcess, tmp_path: Path) -> None:
    down(platform)
    kafka, away = RunLayout(platform.run_dir).kafka, tmp_path / "another volume"
    kafka.rename(away)
    for _ in range(2):
        told = up(platform, code=1)
        assert told.startswith("storekeeper: Kafka's data is lost: ")
        assert CHANGELOG in told
        assert not kafka.exists()
    away.rename(kafka)
    up(platform)
    assert counted(platform), "it was put back"
    down(platform)
    shutil.rmtree(kafka)
    configure(platform, 2)
    assert f"{APP}-events" in up(platform, code=1), "its sources are gone, too"
    up(platform, "--accept-loss")
    write_topic(address(platform), f"{APP}-events", EVENTS)
    assert eventually(lambda: counted(platform), SECONDS)
    down(platform)
    up(platform)
    assert counted(platform), "later starts don't need the option"


def told(platform: PlatformProcess, *arguments: str) -> str:
    """What a command that succeeds says."""
    done = platform.call(*arguments, timeout_s=900)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_is_lost_beside_kafka_is_put_back_or_restored(platform: PlatformProcess, tmp_path: Path) -> None:
    run_dir, backup = platform.run_dir, tmp_path / "back-up"
    told(platform, "snapshot", "create", "totals")
    told(platform, "verify", "totals")
    down(platform)
    shutil.copytree(run_dir, backup, symlinks=True)

    for lost in ("tasks", "state"):
        assert any((run_dir / lost).rglob("*")), "there is something to lose"
        shutil.rmtree(run_dir / lost)
    up(platform)
    assert eventually(lambda: counted(platform), SECONDS), "tasks and nodes restore from the changelogs"

    down(platform)
    (checkpoint,) = (run_dir / "checkpoints" / APP).glob("gen-1")
    claim = checkpoint.with_name("gen-1.claim.json")
    shutil.rmtree(checkpoint)
    claim.unlink()
    said = next(line for line in up(platform, code=4).splitlines() if line.startswith(f"{APP}:"))
    assert "checkpoint" in said
    assert counted(platform), "nodes answer"
    down(platform)
    old = backup / "checkpoints" / APP
    shutil.copytree(old / "gen-1", checkpoint)
    shutil.copy2(old / claim.name, claim)
    up(platform)

    down(platform)
    shutil.rmtree(run_dir)
    shutil.copytree(backup, run_dir, symlinks=True)
    up(platform)
    write_topic(address(platform), f"{APP}-events", [(key.encode(), b'{"Amount": 0}') for key in KEYS])
    assert eventually(lambda: counted(platform), SECONDS), "the whole run directory was put back"

    (run_dir / "delta" / "totals").rename(tmp_path / "totals-damaged")
    told(platform, "snapshot", "create", "totals")
    told(platform, "verify", "totals")
    told(platform, "snapshot", "restore", "totals")
    told(platform, "verify", "totals")
