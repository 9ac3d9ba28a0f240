"""Errors of a change of generation, below the library's `StateError`.

StateError
├── ConfigurationError, RefusedError
│   └── GenerationRefusedError     the step can't be taken in this state, or the change can't work
│       ├── UnconvertibleRowsError rows of the store that the change can't convert
│       └── GenerationsDifferError old and new generation have different rows
├── GenerationPendingError         a process is not far enough yet: take the same step again (retriable)
└── NotesGoneError                 the progress after a batch is gone: use a later batch (retriable)
"""

from __future__ import annotations

from storekeeper.errors import ConfigurationError, RefusedError, RetriableError


class GenerationRefusedError(ConfigurationError, RefusedError):
    """The step can't be taken as things are. The message says which one can."""


class UnconvertibleRowsError(GenerationRefusedError):
    """Rows of the store can't be converted, so the change stops before anything was started."""


class GenerationsDifferError(GenerationRefusedError):
    """Old and new generation differ at the same input position. The old one stays live and has lost nothing."""


class GenerationPendingError(RetriableError):
    """A process is not as far as the step needs. Take the same step again."""


class NotesGoneError(RetriableError):
    """The app's markers have only the progress after later batches. Begin again with the newest batch."""
