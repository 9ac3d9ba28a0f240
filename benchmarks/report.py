"""The pages and tables of measured figures, made from `benchmarks/results/`.

`python -m benchmarks.report` writes the pages to `docs/explanation/benchmarks/`, and the tables of the overview and of
the README between the lines that mark them. It prints the sentences that other pages need.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.plot import Panel, svg
from benchmarks.results import RESULTS
from benchmarks.statements import Row, overview, sentences

NOTES = RESULTS.parent / "notes"
ROOT = RESULTS.parents[1]
FOLDER = ROOT / "docs" / "explanation" / "benchmarks"
_TABLE = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- end of figures -->)", re.DOTALL)
_HEAD = "| | ours | the peer, or the target | `NAME` |\n|---|---|---|---|\n"
_PAGES = {
    "apps": ("Throughput of apps", ("app", "windows", "join", "pos", "quix", "dsl")),
    "queries": ("Queries", ("query", "leaderboard", "neighbours", "order_location")),
    "stores": ("Stores", ("memory", "restore", "seeded_restore")),
    "growth": ("Growth", ("growth", "growth_keys")),
    "tables": ("Snapshots, histories and verification", ("snapshot", "as_of", "verify")),
    "faults": ("Crashes and failover", ("crash", "failover")),
    "operations": (
        "Freshness, migrations and start-up",
        ("freshness", "changeover", "migration", "session", "dag_parse"),
    ),
}
_PLOTTED = ("growth", "seeded_restore")
_INTRODUCTION = """\
The command above each table writes its result to `benchmarks/results/`, and this page is made from there. Figures are
medians. A ratio compares ours with the peer's: the median over pairs of runs, with the smallest and the largest in
brackets. [The overview](README.md) says how to read them.
"""


def pages() -> dict[Path, str]:
    """The text of each page and plot, by its file; of one without a result yet there is none."""
    texts = {FOLDER / f"{name}.md": text for name, page in _PAGES.items() if (text := _page(*page))}
    return texts | {FOLDER / f"{name}.svg": svg(_panels(result)) for name in _PLOTTED for result in _results([name])}


def tables() -> dict[Path, str]:
    """The text of each document with a table of the overview's rows, by its file."""
    shown = {FOLDER / "README.md": overview(), ROOT / "README.md": [row for row in overview() if row.in_readme]}
    return {path: _with_table(path.read_text(), rows) for path, rows in shown.items()}


def _with_table(text: str, rows: list[Row]) -> str:
    table = _HEAD + "".join(f"{row}\n" for row in rows)
    return _TABLE.sub(lambda _: table, text)


def missing_sentences() -> dict[str, list[str]]:
    """The sentences with figures that a page lacks, or has with other figures, by the page."""
    found = {page: " ".join((ROOT / page).read_text().split()) for page in sentences()}
    return {page: [one for one in wanted if one not in found[page]] for page, wanted in sentences().items()}


def _page(title: str, benchmarks: tuple[str, ...]) -> str:
    results = _results(benchmarks)
    return "\n".join([f"# {title}\n", _INTRODUCTION, *map(_section, results)]) if results else ""


def _results(benchmarks: Iterable[str]) -> list[dict[str, Any]]:
    files = [RESULTS / f"{benchmark}.json" for benchmark in benchmarks]
    return [json.loads(file.read_text()) for file in files if file.exists()]


def _panels(result: Mapping[str, Any]) -> list[Panel]:
    """One panel for each kind of measure: the name of a measure is `what it was measured on: kind`, or that alone."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for measure in result["measures"]:
        _, _, kind = measure["measure"].rpartition(": ")
        kinds.setdefault(kind if ": " in measure["measure"] else "", []).append(measure)
    return [_panel(kind, measures) for kind, measures in kinds.items()]


def _panel(kind: str, measures: Sequence[Mapping[str, Any]]) -> Panel:
    unit = measures[0]["unit"]
    labels = [measure["measure"].removesuffix(f": {kind}") for measure in measures]
    sides = ("ours", "peer") if "peer" in measures[0] else ("ours",)
    names = ("ours", measures[0]["peer_name"]) if len(sides) > 1 else ()
    title = f"{kind}, {unit}" if kind else unit
    return Panel(title, labels, [[measure[side] for measure in measures] for side in sides], names)


def _section(result: Mapping[str, Any]) -> str:
    machine = result["machine"]
    settings = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in result["settings"].items())
    rows = "\n".join(_rows(result["measures"]))
    return (
        f"## `make bench-{result['benchmark']}`\n\n"
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, Python {machine['python']}; "
        f"{result['measured_at'][:10]}. With {settings}.\n\n"
        "| measure | unit | better | ours | peer | ratio |\n|---|---|---|---|---|---|\n"
        f"{rows}\n{_picture(result['benchmark'])}{_profile(result)}{_notes(result['benchmark'])}"
    )


def _picture(benchmark: str) -> str:
    return f"\n![The same figures as bars]({benchmark}.svg)\n" if benchmark in _PLOTTED else ""


def _profile(result: Mapping[str, Any]) -> str:
    """The table of our side's processor time; empty if it was not measured."""
    if "profile" not in result:
        return ""
    rows = "\n".join(f"| {part} | {spent_us:.2f} |" for part, spent_us in result["profile"].items())
    return f"\n| where our processor time goes | us per record |\n|---|---|\n{rows}\n"


def _notes(benchmark: str) -> str:
    """The text below a benchmark's figures; empty if there is none."""
    notes = NOTES / f"{benchmark}.md"
    return f"\n{notes.read_text()}" if notes.exists() else ""


def _rows(measures: list[dict[str, Any]]) -> Iterator[str]:
    for measure in measures:
        better = "higher" if measure["higher_is_better"] else "lower"
        peer = f"{_figure(measure['peer'])} ({measure['peer_name']})" if "peer" in measure else ""
        low, high = measure["spread"].get("ratio", (0, 0))
        ratio = f"{measure['ratio']:.2f} ({low:.2f} to {high:.2f})" if "ratio" in measure else ""
        yield f"| {measure['measure']} | {measure['unit']} | {better} | {_figure(measure['ours'])} | {peer} | {ratio} |"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


if __name__ == "__main__":
    for path, text in (pages() | tables()).items():
        path.write_text(text)
    for page, wanted in missing_sentences().items():
        for sentence in wanted:
            print(f"{page} must say: {sentence}")
