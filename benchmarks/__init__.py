"""Measurements side by side with the peers: `make bench-NAME` writes `benchmarks/results/NAME.json`."""
