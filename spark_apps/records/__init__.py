"""The records that the apps read and write: their types, their rules and their bytes. Pure, and free of Spark."""
