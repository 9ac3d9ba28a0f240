"""Who asks: from a bearer token, a client certificate, or a signed request of another node.

Tokens are in a file, with their names, hashes and rights; they themselves are stored nowhere. A line per token, as
JSON: `{"name": "grafana", "sha256": "…", "roles": ["monitor"], "stores": null}`. A token has 256 random bits, so its
plain SHA-256 can't be searched for. Two tokens may have rights alike: that is how one is rotated.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import structlog

from state.clock import Clock
from state.errors import ConfigurationError, InvalidNameError
from state.names import checked_name
from state.private_files import read_secret
from state.security.access import Caller, Role, UnauthenticatedError, current_caller
from state.security.hop import ANONYMOUS, CERTIFICATE, FOR_ITSELF, Hop
from state.whole_files import write_whole

_ALL = frozenset(Role)
_SCHEME = b"bearer "
_LONGEST_TOKEN = 512


class Authenticator:
    """Identifies callers. Open to all if there are neither tokens nor certificates. Belongs to one event loop.

    Args:
        tokens: the valid tokens; None if none is needed.
        certificates: whether TLS has already refused everyone without a certificate.
    """

    def __init__(self, tokens: TokenBook | None = None, *, certificates: bool = False) -> None:
        self._tokens = tokens
        self._certificate = Caller(CERTIFICATE, _ALL) if certificates else None
        self.open = tokens is None and not certificates

    @property
    def revision(self) -> int:
        """Changes whenever the set of known callers may have changed."""
        return 0 if self._tokens is None else self._tokens.revision

    def caller(self, authorization: bytes | None) -> Caller:
        """Who sends a request with this `Authorization` header.

        Raises:
            UnauthenticatedError: if a token is needed and there is no valid one.
        """
        if self._tokens is None:
            if self._certificate is None:
                raise UnauthenticatedError("nobody can be known here")
            return self._certificate
        if authorization is None or authorization[: len(_SCHEME)].lower() != _SCHEME:
            raise UnauthenticatedError("a token is needed: send the header `Authorization: Bearer TOKEN`")
        token = authorization[len(_SCHEME) :].strip()
        found = self._tokens.find(token) if len(token) <= _LONGEST_TOKEN else None
        if found is None:
            raise UnauthenticatedError("the token is not valid here")
        return found

    def caller_of(self, hop: Hop) -> Caller:
        """The caller that another node asks for. A node itself may read all; a caller's rights are looked up here.

        Raises:
            UnauthenticatedError: if this node doesn't know the caller.
        """
        if hop.caller == FOR_ITSELF:
            return Caller(hop.node, _ALL)
        if hop.caller == CERTIFICATE and self._certificate is not None and self._tokens is None:
            return self._certificate
        found = None if self._tokens is None else self._tokens.named(hop.caller)
        if found is None:
            msg = f"node {hop.node} asks for {hop.caller[:140]!r}, unknown here: give both nodes the same tokens"
            raise UnauthenticatedError(msg)
        return found

    def asking_for(self) -> str:
        """The caller that the current task asks other nodes for, as the header between nodes names it."""
        caller = current_caller.get()
        if caller is not None:
            return caller.name
        return ANONYMOUS if self.open else FOR_ITSELF


log = structlog.get_logger(__name__)

_PREFIX = "skt_"
_TOKEN_BYTES = 32
_CHECK_EVERY_S = 1.0


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
        ConfigurationError: if it can't be read, others can read or write it, or a line is no token.
    """
    try:
        text = read_secret(path, "the tokens in")
    except FileNotFoundError as error:
        msg = f"can't read the tokens in {path} ({error.strerror}): make one with `storekeeper token add`"
        raise ConfigurationError(msg) from error
    records = tuple(_record(line, path, number) for number, line in enumerate(text.splitlines(), 1) if line.strip())
    names = [record.caller.name for record in records]
    if len(set(names)) != len(names):
        msg = f"{path} has a name twice: each token has a name of its own"
        raise ConfigurationError(msg)
    return records


def write_tokens(path: Path, records: Sequence[TokenRecord]) -> None:
    """Replaces the file as a whole, readable by its owner only."""
    write_whole(path, b"".join(record.line() for record in records), private=True, durable=True)


class TokenBook:
    """The tokens that are valid now. Notices within a second that its file has changed. Belongs to one thread.

    If the file becomes unreadable, the previous tokens stay valid, and that is logged.

    Raises:
        ConfigurationError: when made, as `read_tokens`; also if there is no token.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._revision = 0
        self._seen = self._version()
        self._use(read_tokens(path))
        if not self._records:
            msg = f"there is no token in {path}: make one with `storekeeper token add NAME`"
            raise ConfigurationError(msg)
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
        found: Caller | None = None
        for record in self._records:
            if hmac.compare_digest(record.digest, digest):
                found = record.caller
        return found

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
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _refresh(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s < self._check_at_s:
            return
        self._check_at_s = now_s + _CHECK_EVERY_S
        version = self._version()
        if version == self._seen:
            return
        self._seen = version
        try:
            self._use(read_tokens(self._path))
        except ConfigurationError as error:
            log.error("tokens_not_reloaded", error=str(error))
        else:
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
        msg = f"line {number} of {path} is no token: write it with `storekeeper token add`"
        raise ConfigurationError(msg) from error
