"""Tests of values by schemas."""
