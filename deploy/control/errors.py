"""Errors of starting, stopping and watching apps, on top of the library's tree.

StateError
├── AppFailedError                an app ended while it was to start; a retry needs a change first
└── AppTimeoutError               an app took too long to start or stop (retriable)
"""

from __future__ import annotations

from state.errors import ConfigurationError, RetriableError


class AppFailedError(ConfigurationError):
    """An app ended while it was to start. The message has its last heartbeat's error and the end of its log."""


class AppTimeoutError(RetriableError):
    """An app took too long to start or to stop. The message has its last known state."""
