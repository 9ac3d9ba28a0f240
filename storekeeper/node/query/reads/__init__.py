"""Reads of rows: of one key, of several, of ranges, of rankings; from this node and from others."""
