"""The plugin, found by Airflow through the entry point `airflow.plugins`. Every component loads it: it stays light."""

from __future__ import annotations

from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from storekeeper_provider.dag_parts.runs import RunQueuedAt

PREFIX = "/storekeeper"


class _LazyApp:
    """The ASGI app of the page, made at the first request: only the API server ever needs it."""

    def __init__(self) -> None:
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._app is None:
            from storekeeper_provider.stores_page.page import page_app  # noqa: PLC0415 (see the class)

            self._app = page_app()
        await self._app(scope, receive, send)


class StoresPlugin(AirflowPlugin):
    """Adds the page "Stores" to Airflow's navigation, and registers the reference time of our DAGs' deadlines."""

    name = "storekeeper"
    fastapi_apps: ClassVar[list[Any]] = [{"app": _LazyApp(), "url_prefix": PREFIX, "name": "Stores"}]
    deadline_references: ClassVar[list[Any]] = [RunQueuedAt]
    external_views: ClassVar[list[Any]] = [
        {
            "name": "Stores",
            "href": f"{PREFIX}/",
            "destination": "nav",
            "url_route": "stores",
            "icon": f"{PREFIX}/icon.svg",
            "icon_dark_mode": f"{PREFIX}/icon-dark.svg",
            "nav_top_level": True,
        }
    ]
