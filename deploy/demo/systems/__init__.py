"""The demo of the five smaller systems: their input, what must come out of it, and what the nodes say."""
