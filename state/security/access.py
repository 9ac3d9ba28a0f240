"""Who asks, and which request needs which right: a pure function of its path and its caller."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote_to_bytes

from state.errors import InvalidArgumentError, StateError
from state.names import store_of


class Role(StrEnum):
    """What a caller may do."""

    READER = "reader"
    """Read stores, and everything that a monitor may."""
    MONITOR = "monitor"
    """Health, metrics, and the lists of nodes and stores; no rows."""
    OPERATOR = "operator"
    """Run jobs and change apps through the control API, and see their state there. Reads no store."""


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller. `stores` are those that it may read, None for all."""

    name: str
    roles: frozenset[Role]
    stores: frozenset[str] | None = None

    @property
    def reads_all(self) -> bool:
        """Whether it may read every store."""
        return Role.READER in self.roles and self.stores is None

    def may_read(self, store: str) -> bool:
        """Whether it may read a store's rows."""
        return Role.READER in self.roles and (self.stores is None or store in self.stores)


current_caller: ContextVar[Caller | None] = ContextVar("current_caller", default=None)
"""Who asks what the running task answers. None outside a request, and on a node without authentication."""


LIVE_PATH = b"/livez"
PAGE_PATH = "/page/"
DOCS_PATH = "/docs"
_OPEN = frozenset({LIVE_PATH, b"/", DOCS_PATH.encode()})
INTERNAL_PREFIX = b"/internal/"
_STATE_PREFIX = b"/state/"
_HIDDEN = (b"%2f", b"%5c", b"%00")


class UnauthenticatedError(StateError):
    """The request names no caller, or doesn't prove it."""


class ForbiddenError(StateError):
    """The caller is known and may not do this."""


def is_open(raw_path: bytes) -> bool:
    """Whether anybody may ask for a path: the node's life, and the files of its pages.

    These files hold no data; the page at `/` asks for a token.
    """
    return raw_path in _OPEN or raw_path.startswith(PAGE_PATH.encode())


def check_plain(raw_path: bytes) -> None:
    """Refuses a path whose first parts change their meaning when they are decoded.

    Raises:
        InvalidArgumentError: if a store's name, or what is before it, holds an encoded slash, backslash or NUL.
    """
    head = b"/".join(raw_path.split(b"/", 4)[:4]).lower()
    if b"%" in head and any(hidden in head for hidden in _HIDDEN):
        raise InvalidArgumentError("the name of a store holds neither slashes nor backslashes, encoded or not")


def check_access(caller: Caller, raw_path: bytes) -> None:
    """Checks that a caller may read a path. There are no writes.

    `/state/GROUP/STORE…` needs the right to read that store. Everything else is of the node and its lists. `raw_path`
    is the path as it was sent, percent-encoded.

    Raises:
        ForbiddenError: if it may not.
    """
    head, _, rest = raw_path.removeprefix(_STATE_PREFIX).partition(b"/")
    if b"%" in raw_path[: len(_STATE_PREFIX)] or b"%" in head:
        # A router that decodes first would see another path than this function does.
        raise ForbiddenError("the path's first parts must be written plainly, without percent signs")
    if not raw_path.startswith(_STATE_PREFIX) or not rest:
        return
    store = unquote_to_bytes(rest.partition(b"/")[0]).decode("utf-8", "replace")
    if not caller.may_read(store_of(store)):
        why = (
            "its role is not reader" if Role.READER not in caller.roles else f"store {store[:140]!r} is not in its list"
        )
        msg = f"the token {caller.name!r} may not read this: {why}"
        raise ForbiddenError(msg)
