"""Real damage: flipped bits, cut files, killed processes, full disks."""
