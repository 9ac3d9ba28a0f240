"""Settings of jobs and tasks that ask query nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from storekeeper.apps.settings import AppSettings
from storekeeper.configuration import LIVE, parse_pairs

if TYPE_CHECKING:
    from storekeeper.client.credentials import Credentials


class ClientSettings(AppSettings):
    """Addresses of the nodes, and credentials for them. Each field is `STOREKEEPER_<NAME>`."""

    change = LIVE

    peers: str = Field(
        default="",
        description="Query nodes: name=address,… Links lead to the first one's page. Without nodes, verification "
        "does not compare them.",
    )
    client_token_file: Path | None = Field(default=None, description="File with the bearer token to show to nodes.")
    client_ca_file: Path | None = Field(
        default=None, description="PEM file of the authorities that sign the nodes' certificates."
    )
    client_certificate_file: Path | None = Field(
        default=None, description="PEM file with a certificate to show to nodes."
    )
    client_key_file: Path | None = Field(default=None, description="PEM file of its key, if that is another file.")

    @property
    def node_addresses(self) -> dict[str, str]:
        """Each query node's base address, in the order of the setting."""
        return parse_pairs(self.peers)

    @property
    def credentials(self) -> Credentials:
        """The credentials for the nodes."""
        # Imported here, so that a job that asks no node loads no client.
        from storekeeper.client.credentials import Credentials  # noqa: PLC0415

        return Credentials(
            token_file=self.client_token_file,
            ca_file=self.client_ca_file,
            certificate_file=self.client_certificate_file,
            key_file=self.client_key_file,
        )
