"""The HTTP server: accepts connections, gives them places, and answers frequent requests as they arrive."""
