"""The driver process: checks apps before their start, runs and watches them, and stops them between two batches."""
