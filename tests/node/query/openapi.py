"""The OpenAPI document of a node: `python -m tests.node.query.openapi > docs/reference/openapi.json`."""

from __future__ import annotations

import json

from storekeeper.node.query.routes.openapi import NodeApp
from tests.node.query.cluster import Cluster


def document() -> str:
    """The document of the present routes, as the file has it."""
    app = Cluster(nodes=("a",), partitions=1).network.apps["a"]._app
    assert isinstance(app, NodeApp)
    return json.dumps(app.openapi(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(document(), end="")
