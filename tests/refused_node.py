"""A node that its settings keep from starting, called in this process: a process of its own takes a second."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from harness.node_process import NodeProcess
from storekeeper.cli.entry import app


def refused_here(node: NodeProcess) -> tuple[int, str]:
    """Runs `storekeeper node` with the node's settings; fails if it begins to serve.

    Returns:
        The exit code, and all that it wrote.
    """

    async def serve(*_: object, **__: object) -> None:
        pytest.fail("the node was not refused: it begins to serve")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("storekeeper.node.node.serve", serve)
        patch.setattr("storekeeper.node.node.configure_log", lambda: None)
        done = CliRunner().invoke(app, ["node", node.name], env=dict(node.environment))
    return done.exit_code, done.output
