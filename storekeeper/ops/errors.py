"""Errors of starting, watching and stopping the platform. The command line shows the message alone.

StateError
├── SupervisorUnreachableError    the supervisor doesn't answer (retriable)
└── PlatformError                 an operation on the platform could not be done; the message says what to do
    ├── NotSetUpError             jars or packages are missing: run `make setup`
    ├── PortTakenError            another process listens where one of ours must
    ├── DiskSpaceError            too little room under the run directory
    ├── AlreadyRunningError       another operation or platform holds the run directory
    ├── ImpossibleChangeError     a running platform can't take over a setting
    ├── LostTopicsError           Kafka doesn't have the topics that apps began with
    └── StartError                a part did not become healthy in time or gave up

The command line ends with exit code 1 on a PlatformError (`storekeeper/program.py`).
"""

from __future__ import annotations

from storekeeper.errors import RetriableError, StateError


class SupervisorUnreachableError(RetriableError):
    """The supervisor doesn't answer or refuses the call. Start the platform, or look into its log."""


class PlatformError(StateError):
    """An operation on the platform could not be done. The message is one sentence with the remedy."""


class NotSetUpError(PlatformError):
    """Something that `make setup` builds is missing. Run it, then try again."""


class PortTakenError(PlatformError):
    """Another process listens on one of our ports. End it, or choose another port by the named setting."""


class DiskSpaceError(PlatformError):
    """Too little room under the run directory. Free some, then try again; nothing is lost."""


class AlreadyRunningError(PlatformError):
    """Another operation or platform holds the run directory. Wait for it or stop it."""


class ImpossibleChangeError(PlatformError):
    """A running platform can't take over a setting. Set it as it was, or stop the platform first."""


class LostTopicsError(PlatformError):
    """Kafka doesn't have the topics that apps began with. Put its data back, or accept the loss."""


class StartError(PlatformError):
    """A part did not become healthy in time, or gave up. The message names its log."""
