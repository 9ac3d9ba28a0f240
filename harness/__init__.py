"""What tests and benchmarks share: real processes to start, harm and watch, and the oracles that judge their outputs.

It knows the product and nothing of tests or benchmarks. It is not installed.
"""
