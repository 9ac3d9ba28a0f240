"""Making a Delta table at a path, whether the user's catalogue answers or not."""

from __future__ import annotations

from delta.tables import DeltaTableBuilder

from storekeeper.delta_files import is_table
from storekeeper.locations import Location


def make_table(builder: DeltaTableBuilder, path: Location) -> None:
    """Makes a table that has this location and no name, unless there is one.

    Delta commits the table, then looks its path up in the catalogue, as if it were a name. The table is there by then:
    a catalogue that doesn't answer is passed over.
    """
    if is_table(path):
        return
    try:
        builder.execute()
    except Exception:  # Spark's own classes, or what py4j makes of a Java exception
        if not is_table(path):
            raise
