"""Questions to other nodes: which node to ask, and one request within its deadline."""
