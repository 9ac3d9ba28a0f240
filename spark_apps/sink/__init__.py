"""Writing to Kafka from a batch's tasks, each in a transaction of its own: once, however often the batch is run."""
