"""The HTTP routes beside the hot one, a file per group."""
