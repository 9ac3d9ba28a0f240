"""Our image, the compose file and the unit of systemd, run by a real engine."""
