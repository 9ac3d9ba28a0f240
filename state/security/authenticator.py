"""Who asks: from a bearer token, a client certificate, or a signed request of another node."""

from __future__ import annotations

from state.security.access import Caller, Role, UnauthenticatedError, current_caller
from state.security.hop import ANONYMOUS, CERTIFICATE, FOR_ITSELF, Hop
from state.security.tokens import TokenBook

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
