"""Tests of the backends, wrappers and store kinds."""
