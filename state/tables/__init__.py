"""Tables, windows, aggregations and suppression with the semantics of Kafka Streams."""
