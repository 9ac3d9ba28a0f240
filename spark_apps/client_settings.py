"""What jobs and tasks that ask query nodes must be told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from spark_apps.settings import AppSettings

if TYPE_CHECKING:
    from state.client.credentials import Credentials


class ClientSettings(AppSettings):
    """What nodes are shown. Each field is `STOREKEEPER_<NAME>`."""

    client_token_file: Path | None = Field(default=None, description="File with the bearer token to show to nodes.")
    client_ca_file: Path | None = Field(default=None, description="PEM file of authorities that nodes are signed by.")
    client_certificate_file: Path | None = Field(
        default=None, description="PEM file with a certificate to show to nodes."
    )
    client_key_file: Path | None = Field(default=None, description="PEM file of its key, if that is another one.")

    @property
    def credentials(self) -> Credentials:
        """What nodes are shown."""
        # Only now, so that a DAG that asks no node is parsed without a client.
        from state.client.credentials import Credentials  # noqa: PLC0415

        return Credentials(
            token_file=self.client_token_file,
            ca_file=self.client_ca_file,
            certificate_file=self.client_certificate_file,
            key_file=self.client_key_file,
        )
