"""How an app grows with its keys, as `benchmarks.growth` measures shapes: `python -m benchmarks.growth_keys`."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.growth import FIRST, measure_shapes

if __name__ == "__main__":
    measure_shapes("growth_keys", (FIRST, replace(FIRST, keys=10_000_000)))
