"""The page of an app's topology: picture, text and Mermaid source, as HTML without scripts."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

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
_CONTENT = """<div class="scroll">{svg}</div>
    <h2>Operators</h2>
    <pre class="scroll">{text}</pre>
    <details>
      <summary>Mermaid source</summary>
      <pre class="scroll">{mermaid}</pre>
    </details>"""


def topology_page(app: str, topology: Mapping[str, str]) -> str:
    """The page of a topology.

    Args:
        app: the app's name.
        topology: the control API's answer: `svg`, which escapes names itself, `text` and `mermaid`.
    """
    words = {name: escape(topology[name]) for name in ("text", "mermaid")}
    return _page(app, _CONTENT.format(svg=topology["svg"], **words))


def refusal_page(app: str, reason: str) -> str:
    """The page in place of a topology that can't be shown."""
    return _page(app, f"<p>{escape(reason)}</p>")


def _page(app: str, content: str) -> str:
    return _PAGE.format(title=escape(f"Topology of {app}"), content=content)
