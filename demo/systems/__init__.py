"""The demo of the five smaller systems: their input, the expected output, and the nodes' answers."""
