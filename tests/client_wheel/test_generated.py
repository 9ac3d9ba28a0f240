"""Clients for Java and TypeScript, generated as `make clients` does, run the programs of their page against a node."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.broker import Broker
from harness.node_process import COMPACTED, NodeProcess, make_nodes, started, write

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "other-languages.md").read_text()
LIMIT_S = 900
TYPESCRIPT = "typescript@5.9.3"

pytestmark = [pytest.mark.broker, pytest.mark.long("tests/node/query/routes/test_openapi.py")]


def run(folder: Path, *command: str) -> str:
    """Runs a program to its end and returns what it printed."""
    program = shutil.which(command[0])
    assert program is not None, f"{command[0]} is not installed"
    ran = subprocess.run(
        [program, *command[1:]], cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]
    return ran.stdout


@pytest.fixture(scope="module")
def node(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    broker.create_topic("generated-changelog", config=COMPACTED)
    rows = [(b"4836051607", b'{"TotalLoyaltyPoints":139.46}'), (b"48/7", b'{"TotalLoyaltyPoints":7}'), (b"5", b"1")]
    write(broker, "generated-changelog", rows)
    folder = tmp_path_factory.mktemp("generated") / "run"
    (found,) = make_nodes(broker, folder, "rewards=generated-changelog", ["a"], replicas=0)
    with started([found]):
        found.wait_ready()
        yield found


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generated sources."""
    folder = tmp_path_factory.mktemp("clients")
    run(ROOT, "make", "--silent", "clients", f"CLIENTS={folder}")
    return folder


def program(language: str, node: NodeProcess) -> str:
    """The program of the page, for this node."""
    (code,) = re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)
    return str(code).replace("http://127.0.0.1:18101", node.address)


def test_java_asks_a_node(node: NodeProcess, clients: Path, tmp_path: Path) -> None:
    run(clients / "java", "mvn", "-q", "-B", "-ntp", "-DskipTests", "-Dmaven.javadoc.skip=true", "package")
    (tmp_path / "Points.java").write_text(program("java", node))
    target = clients / "java" / "target"
    path = f"{target / 'classes'}:{target / 'lib'}/*:."
    run(tmp_path, "javac", "-cp", path, "Points.java")
    assert run(tmp_path, "java", "-cp", path, "Points").splitlines() == [
        "{TotalLoyaltyPoints=139.46}",
        "48/7 {TotalLoyaltyPoints=7}",
        "4836051607 {TotalLoyaltyPoints=139.46}",
        "404",
    ]


def test_typescript_asks_a_node(node: NodeProcess, clients: Path, tmp_path: Path) -> None:
    install = ["npm", "install", "--silent", "--no-audit", "--no-fund"]
    run(clients / "typescript", *install, TYPESCRIPT)
    run(clients / "typescript", "npx", "tsc")
    (tmp_path / "package.json").write_text('{"name": "program", "private": true}')
    run(tmp_path, *install, TYPESCRIPT, str(clients / "typescript"))
    (tmp_path / "points.ts").write_text(program("typescript", node))
    run(
        tmp_path,
        "npx",
        "tsc",
        "--strict",
        "--target",
        "es2022",
        "--module",
        "nodenext",
        "--lib",
        "es2022,dom",
        "points.ts",
    )
    assert run(tmp_path, "node", "points.js").splitlines() == [
        '{"TotalLoyaltyPoints":139.46}',
        '48/7 {"TotalLoyaltyPoints":7}',
        '4836051607 {"TotalLoyaltyPoints":139.46}',
        "404",
    ]
