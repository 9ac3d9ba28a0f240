"""The secret that the nodes of one cluster share, and signatures made with it.

It signs what one node makes and another one must trust: heartbeats, forwarded requests, cursors. Every signature
names its purpose, so that one made for a cursor never passes for a heartbeat.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from storekeeper.errors import ConfigurationError
from storekeeper.private_files import read_secret

SECRET_BYTES = 32
"""Length of a secret that is made here, and the shortest that is taken."""
_DOMAIN = b"storekeeper/1"


def load_cluster_secret(path: Path) -> bytes:
    """The secret in a file; made there, at random and readable by its owner only, if there is none.

    Several processes may call it at once: all of them get the same secret.

    Raises:
        ConfigurationError: if others may read or write the file, if it is too short, or can't be read or made.
    """
    try:
        return _read(path)
    except FileNotFoundError:
        _create(path)
    return _read(path)


def sign(secret: bytes, purpose: str, data: bytes) -> bytes:
    """HMAC-SHA-256 of data for a purpose, 32 bytes. `purpose` is a short constant such as `cursor`."""
    return hmac.digest(secret, _framed(purpose, data), "sha256")


def verified(secret: bytes, purpose: str, data: bytes, signature: bytes) -> bool:
    """Whether `sign` made the signature from these arguments. Takes constant time."""
    return hmac.compare_digest(sign(secret, purpose, data), signature)


def derived(secret: bytes, purpose: str) -> bytes:
    """A key of its own for a purpose, 32 bytes, from which the secret can't be learned."""
    return hashlib.sha256(sign(secret, "derive", purpose.encode())).digest()


def _framed(purpose: str, data: bytes) -> bytes:
    name = purpose.encode()
    return b"%b:%d:%b:%b" % (_DOMAIN, len(name), name, data)


def _read(path: Path) -> bytes:
    secret = read_secret(path, "the cluster's secret")
    if len(secret) < SECRET_BYTES:
        msg = f"the cluster's secret {path} has {len(secret)} bytes, fewer than {SECRET_BYTES}: delete it for a new one"
        raise ConfigurationError(msg)
    return secret


def _create(path: Path) -> None:
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(SECRET_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)  # unlike a rename, it never replaces the one that another node has just made
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    except OSError as error:
        msg = f"can't make the cluster's secret {path} ({error.strerror}): set `cluster_secret_file`"
        raise ConfigurationError(msg) from error
