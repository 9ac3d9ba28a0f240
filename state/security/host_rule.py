"""Which Host headers a node on loopback accepts: a foreign page must not reach it under the page's own name."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

_REMEMBERED = 64


class HostRule:
    """Takes loopback addresses, `localhost` and the given names, with any port. Belongs to one thread.

    A browser that was led to 127.0.0.1 by a foreign name still sends that name: this stops DNS rebinding.
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
        if len(self._accepted) < _REMEMBERED:
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
        try:
            return ipaddress.ip_address(name[1:-1] if name.startswith("[") and name.endswith("]") else name).is_loopback
        except ValueError:
            return False
