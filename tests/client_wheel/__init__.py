"""The clients that are generated from the OpenAPI document."""
