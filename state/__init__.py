"""State stores, changelogs, replicas, queries, snapshots and maintenance: the library and the serving node."""
