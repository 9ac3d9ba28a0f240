"""A cluster under load and faults, with an oracle that stands outside: used by the fault tests and the benchmark."""
