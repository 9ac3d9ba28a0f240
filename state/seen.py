"""The rows of the stores of seen events. Key: that of the events, and their time."""

from __future__ import annotations

import msgspec

_DIGEST_BYTES = 8


class Seen(msgspec.Struct, frozen=True, rename="pascal"):
    """The digests of a key's events at one time."""

    digests: bytes = b""

    def knows(self, digest: bytes) -> bool:
        """Whether an event is among them."""
        return digest in {self.digests[at : at + _DIGEST_BYTES] for at in range(0, len(self.digests), _DIGEST_BYTES)}
