"""What can go wrong when a batch is written."""

from __future__ import annotations

from state.errors import ConfigurationError, RetriableError, StateError


class FencedWriterError(RetriableError):
    """A newer attempt writes in this one's place; what this one wrote is undone. Nothing needs to be done."""


class BrokerRefusedError(StateError):
    """The broker did not take a record, and the batch is undone. The message has the broker's words."""


class UnrepeatableBatchError(ConfigurationError):
    """A batch that is written already was to be written with other content. Start a new generation of the app."""
