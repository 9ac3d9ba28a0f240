"""A node that its settings keep from starting, called in this process: a process of its own takes a second."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from deploy.entry import app
from harness.node_process import NodeProcess


def refused_here(node: NodeProcess) -> tuple[int, str]:
    """Runs `storekeeper node` with the node's settings; fails if it begins to serve.

    Returns:
        The exit code, and all that it wrote.
    """

    async def serve(*_: object, **__: object) -> None:
        pytest.fail("the node was not refused: it begins to serve")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("state.node.serve", serve)
        patch.setattr("state.node.configure_log", lambda: None)
        done = CliRunner().invoke(app, ["node", node.name], env=dict(node.environment))
    return done.exit_code, done.output
