"""The engine: runs topologies on Spark. A task is one sub-topology and one partition, and owns its local stores.

    Spark's plan of offsets -> tasks that read Kafka -> Spark's shuffle -> tasks that gather -> outcomes -> the driver

Each task of a batch commits its outputs, its stores' changes and its marker in one Kafka transaction. The stores' state
is their changelogs; a task's local stores are replicas of them.
"""
