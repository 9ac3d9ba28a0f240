"""Deleting what a generation has left: topics, checkpoint and stores."""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from storekeeper.engine.runtime.checkpoint_owner import owner_file
from storekeeper.engine.runtime.topics import Topics
from storekeeper.engine.store_backends import delete_remote_rows
from storekeeper.generations.handover import GenerationController
from storekeeper.generations.journal import Generation

_OWN_TOPICS = ("-markers", "-repartition")
"""Suffixes of a generation's own topics, other than its changelogs."""
_REMOVALS = 50
_REMOVAL_PAUSE_S = 0.2


def remove_folder(folder: Path, wait: Callable[[float], object] = time.sleep) -> None:
    """Removes a folder to which a JVM that is ending, or is busy with other work, may still write files.

    Raises:
        OSError: it can't be removed, or files keep appearing in it.
    """
    for _ in range(_REMOVALS):
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:  # the JVM removed a file first, or there is no folder
            if not folder.exists():
                return
        except OSError as error:
            # Spark may write there briefly after the query has ended.
            if error.errno != errno.ENOTEMPTY:
                raise
        else:
            return
        wait(_REMOVAL_PAUSE_S)
    shutil.rmtree(folder)


def delete_generation(controller: GenerationController, generation: Generation) -> None:
    """Deletes the topics, the checkpoint and the stores of a generation, even if its seed is incomplete."""
    settings = controller.settings.in_generation(generation.number)
    checkpoint = settings.checkpoint_dir(controller.spec.name)
    prefix = f"{controller.spec.name}-gen-{generation.number}-"
    topics = Topics(settings.kafka)
    own = {name for name in topics.names() if name.startswith(prefix) and name.endswith(_OWN_TOPICS)}
    delete_remote_rows(controller.spec.name, settings)
    # The first generation's repartition topics have no number in their names: its checkpoint lists them.
    topics.delete([*generation.topics.values(), *(own | controller.repartition_topics(generation))])
    for folder in (
        settings.generation_dir(controller.spec.name),
        settings.state_dir / controller.spec.name / f"gen-{generation.number}",
    ):
        remove_folder(folder)
    if isinstance(checkpoint, Path):
        remove_folder(checkpoint)
    else:
        checkpoint.delete_files()
    owner_file(checkpoint).unlink(missing_ok=True)
