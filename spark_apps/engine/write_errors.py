"""Errors of writing a batch."""

from __future__ import annotations

from state.errors import ConfigurationError, RetriableError, StateError


class FencedWriterError(RetriableError):
    """A newer attempt took over, or the broker aborted this one because it took too long. Its writes are undone."""


class BrokerRefusedError(StateError):
    """The broker refused a record or a transaction call; the transaction is aborted. The message says why."""


class UnrepeatableBatchError(ConfigurationError):
    """A committed batch came again with other input, or a later one is committed. Start a new generation of the app."""
