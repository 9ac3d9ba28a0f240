"""Whole changes of generations: seeds, hand-overs, splits and roll-backs under writes and kills."""
