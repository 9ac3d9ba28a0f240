"""Interactive queries: which node has a key, the HTTP routes that answer, and the client."""
