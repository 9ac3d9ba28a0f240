"""The stores of the project, one a file: the type of its rows, how long they are kept, its migrations."""
