"""How a client authenticates, and how it verifies the nodes: token, certificate, authority."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from storekeeper.errors import ConfigurationError
from storekeeper.private_files import check_regular, check_secret, read_secret


class AccessDeniedError(ConfigurationError):
    """The nodes refuse the credentials, or their rights don't cover the query. Use others."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Files are read when a client is made, the token's again with each query, as tokens are renewed on disk.

    Attributes:
        token: a bearer token. Not shown in `repr`, never logged.
        token_file: a file that holds one.
        ca_file: certificates of the authorities trusted for the nodes' certificates; None trusts the system's.
        certificate_file: this client's certificate, with its chain.
        key_file: its private key; None if it is in the same file.
    """

    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None

    def __post_init__(self) -> None:
        if self.token is not None and self.token_file is not None:
            raise ConfigurationError("give a token or a file that holds one, not both")

    def headers(self) -> dict[str, str]:
        """The headers of a request.

        Raises:
            ConfigurationError: if the token can't be read.
        """
        token = self.token if self.token_file is None else _read(self.token_file)
        return {} if token is None else {"authorization": f"Bearer {_checked(token)}"}

    def ssl_context(self) -> ssl.SSLContext:
        """The TLS context for connections.

        Raises:
            ConfigurationError: if a file can't be used.
        """
        try:
            if self.ca_file is not None:
                check_regular(self.ca_file, "the certificate")
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.certificate_file is not None:
                check_regular(self.certificate_file, "the certificate")
                check_secret(self.key_file or self.certificate_file, "the certificate's key")
                context.load_cert_chain(self.certificate_file, self.key_file)
        except (OSError, ssl.SSLError) as error:
            msg = f"a certificate file can't be used ({error}): name PEM files that this user may read"
            raise ConfigurationError(msg) from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context


def _read(path: Path) -> str:
    try:
        return read_secret(path, "the token").decode().strip()
    except FileNotFoundError as error:
        raise ConfigurationError(f"the token file {path} can't be read: there is none") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"the token file {path} can't be read: it holds no text") from error


def _checked(token: str) -> str:
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError("the token is not a bearer token: one line of printable ASCII without blanks")
    return token
