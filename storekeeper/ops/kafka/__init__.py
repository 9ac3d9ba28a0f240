"""A Kafka that is there already: what it must allow, what an administrator makes there, and what is checked."""
