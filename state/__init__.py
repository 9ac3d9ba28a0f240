"""The stores of the project: a file for each, with the type of its rows, how long they are kept, and its migrations."""
