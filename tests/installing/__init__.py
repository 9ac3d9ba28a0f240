"""What we publish: its contents, and environments that have one wheel with one extra at a time."""
