"""What the benchmarks report."""
