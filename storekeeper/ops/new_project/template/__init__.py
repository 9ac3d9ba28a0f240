"""The project that a new one begins as."""
