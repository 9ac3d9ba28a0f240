"""The wheel, installed with one extra at a time."""
