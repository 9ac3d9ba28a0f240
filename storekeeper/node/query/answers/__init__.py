"""The parts of an answer: rows as JSON, errors as problems, and the headers that say where rows come from."""
