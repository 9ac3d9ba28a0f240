"""Stream apps on Spark: one package per app, and the code that they share."""
