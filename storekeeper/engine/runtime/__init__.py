"""Running apps on Spark: session, processes, leases, heartbeats, checkpoints and topics."""
