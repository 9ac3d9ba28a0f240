"""Clients of the nodes: `StateClient` for programs that block, `AsyncStateClient` for those that await."""
