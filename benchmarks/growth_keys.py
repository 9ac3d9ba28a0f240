"""An app with ten times the keys, measured as `benchmarks.growth` measures: `python -m benchmarks.growth_keys`."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.growth import FIRST, measure_shapes

if __name__ == "__main__":
    measure_shapes("growth_keys", (replace(FIRST, keys=10_000_000),))
