"""The page of measured figures, made from `benchmarks/results/`.

`python -m benchmarks.report > docs/explanation/benchmarks.md` writes it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.results import RESULTS

NOTES = RESULTS.parent / "notes"
_INTRODUCTION = """\
# What was measured

Each table was written by the command above it and stands in `benchmarks/results/`. Figures are medians; a ratio is ours
to the peer's, the median over pairs of runs that followed one another, with the smallest and the largest behind it.
Measure on your own machine before you plan with them.
"""


def report() -> str:
    """The whole page, as Markdown."""
    return "\n".join([_INTRODUCTION, *(_section(json.loads(p.read_text())) for p in sorted(RESULTS.glob("*.json")))])


def _section(result: Mapping[str, Any]) -> str:
    machine = result["machine"]
    settings = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in result["settings"].items())
    rows = "\n".join(_rows(result["measures"]))
    return (
        f"## `make bench-{result['benchmark']}`\n\n"
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, Python {machine['python']}; "
        f"{result['measured_at'][:10]}. With {settings}.\n\n"
        "| measure | unit | better | ours | peer | ratio |\n|---|---|---|---|---|---|\n"
        f"{rows}\n{_profile(result)}{_notes(result['benchmark'])}"
    )


def _profile(result: Mapping[str, Any]) -> str:
    """Where our side's processor time goes, if that was measured."""
    if "profile" not in result:
        return ""
    rows = "\n".join(f"| {part} | {spent_us:.2f} |" for part, spent_us in result["profile"].items())
    return f"\n| where our processor time goes | us per record |\n|---|---|\n{rows}\n"


def _notes(benchmark: str) -> str:
    """What is to be said about a benchmark beside its figures."""
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
    sys.stdout.write(report())
