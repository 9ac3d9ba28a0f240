"""Deleting what a generation has left: topics, checkpoint and stores."""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner, owner_file
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


def delete_generation(controller: GenerationController, generation: Generation) -> list[str]:
    """Deletes the topics, the checkpoint and the stores of a generation, even if its seed is incomplete.

    Returns:
        The topics that it has read and the installed code doesn't, and that are left: nothing says that the app made
        them.

    Raises:
        UnusableCheckpointError: the checkpoint or the claim on it can't be read. Nothing is deleted.
    """
    settings = controller.settings.in_generation(generation.number)
    checkpoint = settings.checkpoint_dir(controller.spec.name)
    prefix = f"{controller.spec.name}-gen-{generation.number}-"
    topics = Topics(settings.kafka)
    own = {name for name in topics.names() if name.startswith(prefix) and name.endswith(_OWN_TOPICS)}
    # The first generation's repartition topics have no number in their names, so only its claim tells them from topics
    # of others. The installed code can't: the generation may have read other sources.
    claim = CheckpointOwner.read(checkpoint)
    if claim is not None and (claim.app, claim.generation) == (controller.spec.name, generation.number):
        own |= claim.own_topics
    own = own.difference(controller.spec.sources(settings)).union(generation.topics.values())
    unread = controller.repartition_topics(generation)
    delete_remote_rows(controller.spec.name, settings)
    topics.delete(sorted(own))
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
    return sorted(unread - own)
