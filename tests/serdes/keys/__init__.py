"""Tests of the key layouts."""
