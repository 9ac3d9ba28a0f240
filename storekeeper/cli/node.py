"""`node`: one node in the foreground."""

from __future__ import annotations

from typing import Annotated

import typer


def node(
    name: Annotated[str, typer.Argument(help="This node's name, unique in the cluster.")],
    listen: Annotated[
        str | None, typer.Option(help="HOST:PORT to listen on. Default: the name's address in `peers`.")
    ] = None,
    stores: Annotated[str | None, typer.Option(help="The stores to serve. Default: those of `stores`.")] = None,
) -> None:
    """Run a query node in the foreground until TERM.

    It follows changelogs into local stores and answers queries.

    Example: storekeeper node a
    """
    from storekeeper.node.node import run_node  # noqa: PLC0415 (the server is needed by no other command)

    given: dict[str, object] = {} if stores is None else {"stores": stores}
    if listen is not None:
        given["listen_host"], given["listen_port"] = listen_address(listen)
    run_node(name, given)


def listen_address(text: str) -> tuple[str, int]:
    """The host, without the brackets of an IPv6 address, and the port.

    Raises:
        typer.BadParameter: it isn't of this form.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit():
        raise typer.BadParameter("give HOST:PORT, such as 127.0.0.1:18091", param_hint="--listen")
    return host.strip("[]"), int(port)
