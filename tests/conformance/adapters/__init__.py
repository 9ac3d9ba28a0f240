"""One module per store kind; the runner finds them by itself."""
