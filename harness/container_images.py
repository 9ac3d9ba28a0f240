"""The images that tests run: ours from its Dockerfile, and others or what stands in for them.

Where a registry can't be reached, Debian's packages take the place of an image, under its name: see
`stand_ins/Dockerfile`. These have the certificates that this machine trusts, to reach the package indexes.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from harness.broker import JARS
from harness.container_engine import Engine, NoEngineError
from harness.project import ROOT

OURS = "storekeeper:0.1.0"
_STAND_INS = {
    "python:3.11.14-slim-bookworm": "python",
    "maven:3.9.11-eclipse-temurin-17": "maven",
    "eclipse-temurin:17.0.16_8-jre": "jre",
    "apache/kafka:4.2.0": "kafka",
    "postgres:17.6": "postgres",
    "redis:8.2.2": "redis",
    "prom/prometheus:v3.5.0": "prometheus",
}
"""By the name of the image that it stands in for: a stage of the file."""
NOT_IN_DEBIAN = ("grafana/grafana:12.2.0",)
_FOR_OURS = tuple(_STAND_INS)[:3]
_BOOTSTRAP = "storekeeper-stand-in:bookworm"
_BUILD_TIMEOUT_S = 3600


def our_image(engine: Engine) -> str:
    """Builds our image, with its Dockerfile. Returns its name."""
    provide(engine, _FOR_OURS)
    file = ROOT / "storekeeper" / "ops" / "containers" / "Dockerfile"
    engine.call(
        *("build", "--network", "host", "--tag", OURS, "--file", str(file), str(ROOT)), timeout_s=_BUILD_TIMEOUT_S
    )
    return OURS


def provide(engine: Engine, images: tuple[str, ...] = tuple(_STAND_INS)) -> None:
    """Sees to it that images are there: kept ones, pulled ones, or stand-ins.

    Raises:
        NoEngineError: one can be had in no way, with the reason.
    """
    for image in images:
        if not engine.has_image(image) and engine.call("pull", "--quiet", image, check=False).returncode != 0:
            _stand_in(engine, image)


def can_be_had(engine: Engine, image: str) -> bool:
    """Whether an image is there, or can be pulled."""
    return engine.has_image(image) or engine.call("pull", "--quiet", image, check=False).returncode == 0


def _stand_in(engine: Engine, image: str) -> None:
    if not engine.has_image(_BOOTSTRAP):
        _bootstrap(engine)
    with tempfile.TemporaryDirectory() as name:
        context = Path(name)
        shutil.copytree(ROOT / "harness" / "stand_ins", context, dirs_exist_ok=True)
        subprocess.run(["cp", "-rL", "/etc/ssl/certs", str(context / "certificates")], check=True)
        shutil.copytree(JARS, context / "broker")
        (context / "pip.conf").write_text("[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n")
        engine.call(
            *("build", "--network", "host", "--target", _STAND_INS[image], "--tag", image, str(context)),
            timeout_s=_BUILD_TIMEOUT_S,
        )


def _bootstrap(engine: Engine) -> None:
    if shutil.which("debootstrap") is None:
        raise NoEngineError("images can't be pulled, and debootstrap, which would make stand-ins, is not installed")
    with tempfile.TemporaryDirectory(prefix="storekeeper-bookworm-") as root:
        packages = "--include=ca-certificates"
        subprocess.run(
            ["debootstrap", "--variant=minbase", packages, "bookworm", root], check=True, capture_output=True
        )
        Path(root).chmod(0o755)  # it becomes the root of the image, which other users enter
        with subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE) as packing:
            subprocess.run(
                ["docker", "import", "-", _BOOTSTRAP],
                stdin=packing.stdout, env=engine.environment, check=True, capture_output=True,
            )  # fmt: skip
