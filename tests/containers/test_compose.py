"""The whole compose file, up: the demo's loop within it, a kill, a lost container, and another image under reads."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest

from harness.container_engine import Engine, NoEngineError
from harness.container_images import OURS
from harness.waiting import eventually
from tests.containers.composed import UP_S, Composed, composed
from tests.containers.kept_platform import USER

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow),
    pytest.mark.timeout(7200),
    pytest.mark.long("tests/ops/containers/test_compose.py needs no engine"),
]

NEWER = "storekeeper:newer"
FIRST, ALL = 3000, 4000
NODES = ("node-a", "node-b", "node-c")


@pytest.fixture(scope="module")
def platform(engine: Engine, image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composed]:
    assert image
    try:
        with composed(engine, tmp_path_factory.mktemp("composed")) as running:
            yield running
    except NoEngineError as error:
        pytest.skip(f"no compose: {error}")


def test_what_was_bought_is_in_every_output_once(platform: Composed) -> None:
    platform.inside("publish", "0", str(FIRST))
    assert platform.differences(FIRST) == []


def test_containers_have_no_rights_and_no_secrets_in_their_variables(platform: Composed) -> None:
    secrets = [path.read_text() for path in (platform.folder / ".containers" / "secrets").glob("*-password")]
    assert secrets
    for name, service in platform.services.items():
        for container in platform.containers(name):
            known = platform.engine.inspect(container)
            assert known["HostConfig"]["SecurityOpt"] == ["no-new-privileges:true"], name
            assert not [secret for secret in secrets if secret in json.dumps(known["Config"]["Env"])], name
            if "user" not in service:
                continue
            assert known["Config"]["User"] == f"{USER}:{USER}", name
            assert known["HostConfig"]["ReadonlyRootfs"] is service.get("read_only", False), name
            if known["State"]["Running"]:
                rights = platform.engine.says("exec", container, "grep", "-E", "^Cap(Eff|Bnd)", "/proc/1/status")
                assert {line.split()[1] for line in rights.splitlines()} == {"0" * 16}, name


def test_a_killed_app_and_a_killed_node_are_started_again(platform: Composed) -> None:
    platform.inside("publish", str(FIRST), str(ALL))
    apps = platform.container("stream-apps")
    assert platform.engine.kill_process(apps, "entry run pos")
    node = platform.container("node-b")
    os.kill(platform.engine.inspect(node)["State"]["Pid"], signal.SIGKILL)
    eventually(lambda: platform.engine.inspect(node)["RestartCount"] > 0, UP_S, "the engine has started the node again")
    platform.await_healthy()
    assert platform.differences(ALL) == []


def test_another_image_service_by_service_fails_no_read(platform: Composed) -> None:
    platform.engine.call("build", "--tag", NEWER, "-", data=f"FROM {OURS}\nLABEL newer=yes\n".encode())
    with platform.reads() as told:
        platform.inside("publish", str(ALL), str(ALL + 500))
        for service in (*NODES, "stream-apps"):
            platform.use_image(service, NEWER)
            platform.await_healthy([service])
    print(f"{told['answered']} answers")
    assert told["failures"] == []
    assert told["answered"] > 100
    newer = platform.engine.inspect(NEWER)["Id"]
    for service in (*NODES, "stream-apps"):
        assert platform.engine.inspect(platform.container(service))["Image"] == newer
    assert platform.differences(ALL + 500) == []
