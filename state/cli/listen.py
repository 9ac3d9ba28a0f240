"""`--listen HOST:PORT` of the commands that serve."""

from __future__ import annotations

import typer


def listen_address(text: str) -> tuple[str, int]:
    """The host, without the brackets of an IPv6 address, and the port.

    Raises:
        typer.BadParameter: it isn't of this form.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit():
        raise typer.BadParameter("give HOST:PORT, such as 127.0.0.1:18091", param_hint="--listen")
    return host.strip("[]"), int(port)
