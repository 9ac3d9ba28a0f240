"""`storekeeper dashboard`: the glance, live, until it is interrupted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.live import Live

from deploy.layout import RunLayout
from deploy.overview.glance import Glance, Holders
from deploy.overview.look import Look
from deploy.overview.terminal import picture
from deploy.settings import PlatformSettings
from state.client import ClientLimits, Credentials, StateClient
from state.clock import SystemClock
from state.settings import NodeSettings, load_node_settings

_TIMEOUT_S = 2.0


def platform_look(settings: PlatformSettings, token_file: Path | None = None, ca_file: Path | None = None) -> Look:
    """A look at the platform of these settings, as the processes of this machine see its nodes."""
    credentials = Credentials(token_file=token_file, ca_file=ca_file)

    def client() -> StateClient:
        addresses = list(load_node_settings().peer_addresses.values())
        return StateClient(addresses, credentials=credentials, limits=ClientLimits(timeout_s=_TIMEOUT_S))

    return Look(RunLayout(settings.run_dir), SystemClock(), client, _holders(load_node_settings()))


def _holders(settings: NodeSettings) -> Holders:
    return Holders(
        names={address: name for name, address in settings.peer_addresses.items()},
        standbys=settings.replicas,
        standbys_of=settings.replicas_by_store,
    )


def show_dashboard(look: Callable[[], Glance], *, interval_s: float, count: int, as_json: bool) -> None:
    """Shows `count` looks (0: until interrupted), `interval_s` apart; without a terminal one after the other."""
    console = Console()
    if as_json:
        _repeat(lambda: print(json.dumps(look().as_json()), flush=True), interval_s, count)
    elif not console.is_terminal:
        _repeat(lambda: console.print(picture(look())), interval_s, count)
    else:
        with Live(console=console, auto_refresh=False, screen=count == 0) as live:
            _repeat(lambda: live.update(picture(look()), refresh=True), interval_s, count)


def _repeat(show: Callable[[], None], interval_s: float, count: int) -> None:
    shown = 0
    while True:
        show()
        shown += 1
        if shown == count:
            return
        time.sleep(interval_s)
