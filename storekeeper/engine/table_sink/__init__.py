"""A topic into a Delta table, each record exactly once; dead letters by the tasks."""
