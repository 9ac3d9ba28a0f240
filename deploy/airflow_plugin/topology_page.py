"""The page of an app's topology: picture, text and Mermaid source, as HTML without scripts."""

from __future__ import annotations

from html import escape

from spark_apps.generations.live import live_topology
from spark_apps.registry import APPS
from spark_apps.settings import AppSettings
from state.errors import StateError

_PAGE = """<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <title>{title}</title>
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <link rel="icon" href="../icon.svg">
    <link rel="stylesheet" href="../stores.css">
  </head>
  <body>
    <header>
      <h1>{title}</h1>
      <a href="../">Stores</a>
    </header>
    {content}
  </body>
</html>
"""
_CONTENT = """<div class="scroll">{picture}</div>
    <h2>Operators</h2>
    <pre class="scroll">{text}</pre>
    <details>
      <summary>Mermaid source</summary>
      <pre class="scroll">{mermaid}</pre>
    </details>"""


def topology_page(app: str) -> tuple[int, str]:
    """HTTP status and page of the topology that an app's live generation runs; 404 if there is nothing to show."""
    # Not `app_named`: a path must not name a module to import.
    if app not in APPS:
        return 404, _page(app, f"<p>There is no app {escape(app)}.</p>")
    try:
        topology = live_topology(APPS[app], AppSettings())
    except StateError as error:
        return 404, _page(app, f"<p>{escape(str(error))}</p>")
    content = _CONTENT.format(
        picture=topology.svg(), text=escape(topology.describe()), mermaid=escape(topology.mermaid())
    )
    return 200, _page(app, content)


def _page(app: str, content: str) -> str:
    return _PAGE.format(title=escape(f"Topology of {app}"), content=content)
