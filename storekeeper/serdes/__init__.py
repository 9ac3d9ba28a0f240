"""Serdes: how keys and values become bytes and come back. No serde falls back to pickle."""
