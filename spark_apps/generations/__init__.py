"""Generations: how the state of an app changes while it runs. See docs/migrations.md."""
