"""Values by the schemas of a registry: Avro, Protobuf and JSON Schema, in Confluent's wire format.

`avro`, `protobuf` and `json_schema` have a serde each, for streams, sinks and stores of a topology. `registry` asks the
registry, `bound` ties a serde to a topic's subject, and `as_json` shows any value as JSON. Needs the extra `registry`.
"""
