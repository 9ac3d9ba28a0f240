"""What a store is mostly used for. Free of RocksDB: a description of a store loads no more."""

from __future__ import annotations

from enum import StrEnum


class Profile(StrEnum):
    """What a store is mostly used for."""

    WRITE_HEAVY = "write_heavy"
    """Big write buffers and lazy compaction: fewer, larger writes to disk; reads touch more files."""
    READ_HEAVY = "read_heavy"
    """Strong filters and eager compaction: a point read touches one file."""
    MEMORY_CONSTRAINED = "memory_constrained"
    """Small buffers and blocks, few open files: many stores in a small process."""
    BALANCED = "balanced"
    """The default."""
