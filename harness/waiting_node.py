"""`python -m harness.waiting_node`: a node that has imported everything, and begins when it reads a line."""

from __future__ import annotations

import sys

from state.node import main

if __name__ == "__main__":
    sys.exit(main() if sys.stdin.readline() else 0)
