"""What a benchmark reports: paired figures with their spread, and the machine that they were measured on."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psutil

from benchmarks.measured_code import code_digest, measured_packages

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure, measured in several runs; with a peer, the runs of both are paired in order.

    Attributes:
        name: what was measured, for example `restore`.
        unit: for example `records/s`.
        ours: one figure per run.
        peer: the peer's figures of the same runs, or empty.
        peer_name: who the peer is, or an empty string.
        higher_is_better: how to read the ratio.
    """

    name: str
    unit: str
    ours: Sequence[float]
    peer: Sequence[float] = ()
    peer_name: str = ""
    higher_is_better: bool = True

    def as_dict(self) -> dict[str, object]:
        """Medians, the ratio ours / peer of each pair as a median, and the smallest and largest of each."""
        report: dict[str, object] = {
            "measure": self.name,
            "unit": self.unit,
            "higher_is_better": self.higher_is_better,
            "ours": _median(self.ours),
            "spread": {"ours": [min(self.ours), max(self.ours)]},
            "runs": len(self.ours),
        }
        if self.peer:
            ratios = [ours / peer for ours, peer in zip(self.ours, self.peer, strict=True)]
            report |= {"peer": _median(self.peer), "peer_name": self.peer_name, "ratio": _median(ratios)}
            report["spread"] = {
                "ours": [min(self.ours), max(self.ours)],
                "peer": [min(self.peer), max(self.peer)],
                "ratio": [round(min(ratios), 3), round(max(ratios), 3)],
            }
        return report


def _median(figures: Sequence[float]) -> float:
    return round(statistics.median(figures), 3)


def machine(benchmark: str) -> dict[str, object]:
    """The machine, and the versions of the packages that a benchmark measures."""
    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor(),
    )
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in sorted(measured_packages(benchmark))},
    }


def write_results(
    name: str, measures: Sequence[Measure], settings: Mapping[str, object], profile: Mapping[str, float] | None = None
) -> Path:
    """Writes `benchmarks/results/<name>.json` and returns its path.

    Args:
        name: the benchmark's name, as in `make bench-<name>`.
        measures: what was measured.
        settings: the sizes that the run used: records, keys, connections and so on.
        profile: what our side's processor time went to, if that was measured: microseconds per record by what.
    """
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    report = {
        "benchmark": name,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "code": code_digest(name),
        "machine": machine(name),
        "settings": dict(settings),
        "measures": [measure.as_dict() for measure in measures],
    }
    if profile is not None:
        report["profile"] = {part: round(spent_us, 2) for part, spent_us in profile.items()}
    path.write_text(json.dumps(report, indent=2) + "\n")
    return path
