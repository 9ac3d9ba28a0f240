"""The platform's apps as topologies: one function `topology(streams, settings)` each, free of Spark."""
