"""`python -m harness.waiting_node NAME`: a node that has imported all and begins at a line of input."""

from __future__ import annotations

import sys

import storekeeper.node.node  # noqa: F401 (ahead of its start)
from storekeeper.cli.entry import main

if __name__ == "__main__" and sys.stdin.readline():
    sys.argv.insert(1, "node")
    main()
