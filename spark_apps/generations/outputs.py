"""What a generation lets through of what its app writes, and in which form.

An app computes values of version 1, in every generation. On their way to the changelog they are converted; all other
outputs pass only in the batches whose outputs are this generation's to write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from spark_apps.engine.topic_rules import Headers, MapRecords, SinkRecord
from spark_apps.generations.catalog import chain_of
from spark_apps.generations.errors import GenerationRefusedError, UnconvertibleRowsError
from spark_apps.generations.journal import Generation
from spark_apps.generations.migration import Chain
from state.changelog.headers import STORE
from state.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa


def as_generation(records_of: MapRecords, generation: Generation | None, batch_id: int) -> MapRecords:
    """`records_of` as it is in a generation; as it was, if there is nothing to change in that batch.

    The same batch of the same generation is always written alike: what a batch may write is decided before it begins.

    Raises:
        GenerationRefusedError: its migrations lead to other stores than it was made with.
    """
    if generation is None:
        return records_of
    chain, speaks = chain_of(generation.migrations), generation.writes_outputs(batch_id)
    _check_stores(chain, generation)
    if not chain.steps and speaks:
        return records_of
    return partial(passed, records_of=records_of, generation=generation, chain=chain, speaks=speaks)


def _check_stores(chain: Chain, generation: Generation) -> None:
    declared = {name for store in generation.topics for name in chain.of(store).stores(store)}
    if declared != generation.changelogs.keys():
        msg = (
            f"generation {generation.number} has the stores {', '.join(generation.changelogs)}, and its "
            f"migrations are declared to lead to {', '.join(sorted(declared))}: put them back as they were"
        )
        raise GenerationRefusedError(msg)


def passed(
    batches: Iterator[pa.RecordBatch], *, records_of: MapRecords, generation: Generation, chain: Chain, speaks: bool
) -> Iterator[SinkRecord]:
    """The changelogs' records, converted by `chain`, and if it `speaks` the others as they are.

    The app writes its changes to `generation.topics`; those of a generation with parts go on to theirs.

    Raises:
        UnconvertibleRowsError: a record can't be converted.
    """
    changelogs = {topic: (store, chain.of(store)) for store, topic in generation.topics.items()}
    parts, marked = generation.parts, _Marked()
    for record in records_of(batches):
        topic, key, value, headers, partition = record
        if topic not in changelogs:
            if speaks:
                yield record
            continue
        own, changes = changelogs[topic]
        if key is None or not changes.steps:
            yield record
        else:
            for store, new_key, new_value in _converted(changes, own, key, value):
                if parts:
                    yield parts[store], new_key, new_value, marked.of(store, headers), partition
                else:
                    yield topic, new_key, new_value, headers, partition


def _converted(
    chain: Chain, own_store: str, key: bytes, value: bytes | None
) -> Sequence[tuple[str, bytes, bytes | None]]:
    try:
        if value is None:
            return [(store, new_key, None) for store, new_key in chain.placed_keys(own_store, key)]
        return chain.placed(own_store, key, value)
    except ConfigurationError as error:
        raise UnconvertibleRowsError(str(error)) from error
    except Exception as error:  # whatever a function of the app's own raises
        # The key's bytes may be personal, and the error may quote the value.
        msg = f"a record can't be converted ({type(error).__name__} in {', '.join(step.name for step in chain.steps)})"
        raise UnconvertibleRowsError(msg) from None


class _Marked:
    """Headers with another store's name in them. A task has the same headers for all its records: each is made once."""

    def __init__(self) -> None:
        self._headers: Headers = None
        self._by_store: dict[str, Headers] = {}

    def of(self, store: str, headers: Headers) -> Headers:
        """The headers, of that store."""
        if headers is not self._headers:
            self._headers, self._by_store = headers, {}
        if store not in self._by_store:
            name = store.encode()
            self._by_store[store] = headers and [(key, name if key == STORE else value) for key, value in headers]
        return self._by_store[store]
