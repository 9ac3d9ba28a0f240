"""What a generation lets through of what its app writes, and in which form.

An app computes values of version 1, in every generation. On their way to the changelog they are converted; all other
outputs pass only in the batches whose outputs are this generation's to write.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from spark_apps.generations.catalog import chain_of
from spark_apps.generations.errors import UnconvertibleRowsError
from spark_apps.generations.journal import Generation
from spark_apps.generations.migration import Chain
from spark_apps.sink.records import MapRecords, SinkRecord

if TYPE_CHECKING:
    import pyarrow as pa


def as_generation(records_of: MapRecords, generation: Generation | None, batch_id: int) -> MapRecords:
    """`records_of` as it is in a generation; as it was, if there is nothing to change in that batch.

    The same batch of the same generation is always written alike: what a batch may write is decided before it begins.
    """
    if generation is None:
        return records_of
    chain, speaks = chain_of(generation.migrations), generation.writes_outputs(batch_id)
    if not chain.steps and speaks:
        return records_of
    return partial(passed, records_of=records_of, changelog=generation.topic, chain=chain, speaks=speaks)


def passed(
    batches: Iterator[pa.RecordBatch], *, records_of: MapRecords, changelog: str, chain: Chain, speaks: bool
) -> Iterator[SinkRecord]:
    """The changelog's records, converted by `chain`, and if it `speaks` the others as they are.

    Raises:
        UnconvertibleRowsError: a record can't be converted.
    """
    for record in records_of(batches):
        topic, key, value, headers, partition = record
        if topic != changelog:
            if speaks:
                yield record
        elif key is None or value is None or not chain.steps:
            yield record
        else:
            for new_key, new_value in _converted(chain, key, value):
                yield topic, new_key, new_value, headers, partition


def _converted(chain: Chain, key: bytes, value: bytes) -> list[tuple[bytes, bytes]]:
    try:
        return chain.convert(key, value)
    except Exception as error:  # whatever a function of the app's own raises
        # The key's bytes may be personal, and the error may quote the value.
        msg = f"a record can't be converted ({type(error).__name__} in {', '.join(step.name for step in chain.steps)})"
        raise UnconvertibleRowsError(msg) from None
