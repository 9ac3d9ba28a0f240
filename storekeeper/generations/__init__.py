"""Generations: how the state of an app changes while it runs. See docs/how-to/migrate-state.md."""
