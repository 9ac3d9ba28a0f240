"""What stops a change of generation, on top of the library's tree.

StateError
├── ConfigurationError
│   └── GenerationRefusedError     the step can't be taken in this state, or the change can't work
│       ├── UnconvertibleRowsError rows of the store that the change can't convert
│       └── GenerationsDifferError old and new generation don't hold the same
├── GenerationPendingError         not there yet: the same step may be taken again (retriable)
└── NotesGoneError                 what was to be noted of a batch is gone: a later one has it (retriable)
"""

from __future__ import annotations

from state.errors import ConfigurationError, RetriableError


class GenerationRefusedError(ConfigurationError):
    """The step can't be taken as things are. The message says which one can."""


class UnconvertibleRowsError(GenerationRefusedError):
    """Rows of the store can't be converted, so the change stops before anything was started."""


class GenerationsDifferError(GenerationRefusedError):
    """Old and new generation differ at the same place of the input. Roll back; the old one has lost nothing."""


class GenerationPendingError(RetriableError):
    """A process has not come as far as the step needs. Take the same step again."""


class NotesGoneError(RetriableError):
    """The app has gone on and keeps only what belongs to later batches. Begin with the newest one."""
