"""Tests of who may ask what."""
