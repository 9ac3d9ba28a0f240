"""Who may ask what: callers and their rights, the tokens that prove them, and the Host headers of a node on loopback.

A caller is known by a bearer token, by a client certificate, or by a signed request of another node. Tokens are in a
file, with their names, hashes and rights; they themselves are stored nowhere. A line per token, as JSON:
`{"name": "grafana", "sha256": "…", "roles": ["monitor"], "stores": null}`. A token has 256 random bits, so its plain
SHA-256 can't be searched for. Two tokens may have rights alike: that is how one is rotated.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import unquote_to_bytes

import orjson
import structlog

from storekeeper.clock import Clock
from storekeeper.errors import ConfigurationError, InvalidNameError, StateError
from storekeeper.loopback import is_loopback
from storekeeper.names import checked_name, store_of
from storekeeper.node.security.hop import CERTIFICATE, FOR_ITSELF, Hop
from storekeeper.private_files import read_secret
from storekeeper.whole_files import write_whole

log = structlog.get_logger(__name__)

LIVE_PATH = b"/livez"
PAGE_PATH = "/page/"
DOCS_PATH = "/docs"
INTERNAL_PREFIX = b"/internal/"
_STATE_PREFIX = b"/state/"
_SCHEME = b"bearer "
_LONGEST_TOKEN = 512
_HOSTS_REMEMBERED = 64
_PREFIX = "skt_"
_TOKEN_BYTES = 32
_CHECK_EVERY_S = 1.0


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


_ALL = frozenset(Role)


class UnauthenticatedError(StateError):
    """The request names no caller, or doesn't prove it."""


class ForbiddenError(StateError):
    """The caller is known and may not do this."""


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
        raise ForbiddenError(f"the token {caller.name!r} may not read this: {why}")


class HostRule:
    """The Host headers that a node on loopback takes: loopback addresses, `localhost` and the given names, any port.

    A browser that was led to 127.0.0.1 by a foreign name still sends that name: this stops DNS rebinding. Belongs to
    one thread.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset({"localhost", *(name.strip().lower() for name in names if name.strip())})
        self._accepted: set[bytes] = set()

    def accepts(self, host: bytes) -> bool:
        """Whether a request with this header is meant for the node."""
        if host in self._accepted:
            return True
        if not self._is_ours(host.decode("latin-1")):
            return False
        if len(self._accepted) < _HOSTS_REMEMBERED:
            self._accepted.add(host)
        return True

    def _is_ours(self, host: str) -> bool:
        name, colon, port = host.rpartition(":")
        if not colon or host.endswith("]"):
            name, port = host, "0"
        if not (port.isascii() and port.isdigit()):
            return False
        if name.lower() in self._names:
            return True
        return is_loopback(name[1:-1] if name.startswith("[") and name.endswith("]") else name)


class Authenticator:
    """Identifies callers. Open to all if there are neither tokens nor certificates. Belongs to one event loop. `tokens`
    None: none is needed. `certificates`: TLS has already refused everyone without one.
    """

    def __init__(self, tokens: TokenBook | None = None, *, certificates: bool = False) -> None:
        self._tokens = tokens
        self._certificate = Caller(CERTIFICATE, _ALL) if certificates else None
        self.open = tokens is None and not certificates

    @property
    def revision(self) -> int:
        """Changes whenever the set of known callers may have changed."""
        return 0 if self._tokens is None else self._tokens.revision

    def caller(self, authorization: bytes | None, hop: Hop | None = None) -> Caller:
        """Who sends a request with this `Authorization` header, or who another node asks for.

        A node itself may read all; a caller's rights are looked up here.

        Raises:
            UnauthenticatedError: if a token is needed and there is no valid one, or this node doesn't know the caller.
        """
        if hop is not None:
            return self._caller_of(hop)
        if self._tokens is None:
            if self._certificate is None:
                raise UnauthenticatedError("nobody can be known here")
            return self._certificate
        if authorization is None or authorization[: len(_SCHEME)].lower() != _SCHEME:
            raise UnauthenticatedError("a token is needed: send the header `Authorization: Bearer TOKEN`")
        token = authorization[len(_SCHEME) :].strip()
        caller = self._tokens.find(token) if len(token) <= _LONGEST_TOKEN else None
        if caller is None:
            raise UnauthenticatedError("the token is not valid here")
        return caller

    def _caller_of(self, hop: Hop) -> Caller:
        if hop.caller == FOR_ITSELF:
            return Caller(hop.node, _ALL)
        if hop.caller == CERTIFICATE and self._certificate is not None and self._tokens is None:
            return self._certificate
        caller = None if self._tokens is None else self._tokens.named(hop.caller)
        if caller is None:
            msg = f"node {hop.node} asks for {hop.caller[:140]!r}, unknown here: give both nodes the same tokens"
            raise UnauthenticatedError(msg)
        return caller


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """One token as it is stored. `digest` is its SHA-256."""

    caller: Caller
    digest: bytes

    def line(self) -> bytes:
        """The line of the file, with its newline."""
        stores = None if self.caller.stores is None else sorted(self.caller.stores)
        fields = {
            "name": self.caller.name,
            "sha256": self.digest.hex(),
            "roles": sorted(self.caller.roles),
            "stores": stores,
        }
        return orjson.dumps(fields) + b"\n"


def new_token() -> str:
    """A random token, of characters that need no escaping."""
    return _PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)


def token_digest(token: bytes) -> bytes:
    """The stored digest of a token, 32 bytes."""
    return hashlib.sha256(token).digest()


def read_tokens(path: Path) -> tuple[TokenRecord, ...]:
    """The tokens of a file.

    Raises:
        ConfigurationError: if it can't be read, others can read or write it, or a line is not a token.
    """
    try:
        text = read_secret(path, "the tokens in")
    except FileNotFoundError as error:
        msg = f"can't read the tokens in {path} ({error.strerror}): make one with `storekeeper token add`"
        raise ConfigurationError(msg) from error
    records = tuple(_record(line, path, number) for number, line in enumerate(text.splitlines(), 1) if line.strip())
    names = [record.caller.name for record in records]
    if len(set(names)) != len(names):
        raise ConfigurationError(f"{path} has a name twice: each token has a name of its own")
    return records


def write_tokens(path: Path, records: Sequence[TokenRecord]) -> None:
    """Replaces the file as a whole, readable by its owner only."""
    write_whole(path, b"".join(record.line() for record in records), private=True, durable=True)


class TokenBook:
    """The tokens that are valid now. Notices within a second that its file has changed. Belongs to one thread.

    If the file becomes unreadable, the previous tokens stay valid, and that is logged. `clock` says when to look at the
    file again. If no token is `needed`, it may come later.

    Raises:
        ConfigurationError: when made, as `read_tokens`; also if there must be a token, and is none.
    """

    def __init__(self, path: Path, clock: Clock, *, needed: bool = True) -> None:
        self._path = path
        self._clock = clock
        self._revision = 0
        self._seen = self._version()
        self._trouble = ""
        self._use(read_tokens(path) if needed or self._seen is not None else ())
        if needed and not self._records:
            raise ConfigurationError(f"there is no token in {path}: make one with `storekeeper token add NAME`")
        self._check_at_s = clock.monotonic_s() + _CHECK_EVERY_S

    @property
    def revision(self) -> int:
        """Changes with each version of the file that was loaded."""
        self._refresh()
        return self._revision

    def find(self, token: bytes) -> Caller | None:
        """Who a token belongs to, None if it is not valid. Every stored hash is compared, even after a match."""
        self._refresh()
        digest = token_digest(token)
        caller: Caller | None = None
        for record in self._records:
            if hmac.compare_digest(record.digest, digest):
                caller = record.caller
        return caller

    def named(self, name: str) -> Caller | None:
        """The caller of that name, None if there is none."""
        self._refresh()
        return self._by_name.get(name)

    def _use(self, records: tuple[TokenRecord, ...]) -> None:
        self._records = records
        self._revision += 1
        self._by_name = {record.caller.name: record.caller for record in records}

    def _version(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _refresh(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s < self._check_at_s:
            return
        self._check_at_s = now_s + _CHECK_EVERY_S
        version = self._version()
        if version == self._seen:
            self._trouble = ""
            return
        try:
            self._use(read_tokens(self._path))
        except ConfigurationError as error:
            # Tried again every second: `chmod` changes nothing that `_version` looks at.
            if str(error) != self._trouble:
                log.error("tokens_not_reloaded", error=str(error))
            self._trouble = str(error)
        else:
            self._seen, self._trouble = version, ""
            log.info("tokens_reloaded", tokens=len(self._records))


def _record(line: bytes, path: Path, number: int) -> TokenRecord:
    try:
        fields = orjson.loads(line)
        digest = bytes.fromhex(fields["sha256"])
        if len(digest) != hashlib.sha256().digest_size:
            raise ValueError("a SHA-256 has 32 bytes")
        roles = frozenset(Role(role) for role in fields["roles"])
        stores = fields.get("stores")
        allowed = None if stores is None else frozenset(checked_name(store) for store in stores)
        return TokenRecord(Caller(checked_name(fields["name"]), roles, allowed), digest)
    except (ValueError, TypeError, KeyError, InvalidNameError) as error:
        msg = f"line {number} of {path} is not a token: write it with `storekeeper token add`"
        raise ConfigurationError(msg) from error
