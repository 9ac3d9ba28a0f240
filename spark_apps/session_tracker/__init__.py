"""App `session_tracker`: what users do, gathered into sessions that a gap without activity ends."""
