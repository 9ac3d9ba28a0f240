"""Tests of the serdes."""
