"""App `ticks`: a table of the last price per symbol, filtered by a regular expression."""
