"""The HTTP server: accepts connections and answers frequent requests as they arrive."""
