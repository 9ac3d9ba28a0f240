"""A query node: it follows changelogs into local stores, and answers queries."""
