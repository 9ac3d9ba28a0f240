"""The ACLs that commands of Kafka's own tool would add, for brokers whose tool isn't there, and those of a team."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Iterator

from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

_TYPES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
}
_OPERATIONS = {operation.name.replace("_", "").lower(): operation for operation in AclOperation}


def bindings(commands: Iterable[str]) -> Iterator[AclBinding]:
    """The ACLs of commands `kafka-acls … --add …`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--add", action="store_true", required=True)
    parser.add_argument("--operation", action="append", required=True)
    parser.add_argument("--resource-pattern-type", default="literal")
    for option in ("--bootstrap-server", "--command-config", "--allow-principal"):
        parser.add_argument(option, required=True)
    for option in ("--topic", "--group", "--transactional-id"):
        parser.add_argument(option)
    for command in commands:
        tool, *arguments = shlex.split(command)
        assert tool == "kafka-acls", command
        found = vars(parser.parse_args(arguments))
        for kind, resource in _TYPES.items():
            for operation in found["operation"] if found[kind] else ():
                yield AclBinding(
                    resource,
                    found[kind],
                    ResourcePatternType[found["resource_pattern_type"].upper()],
                    found["allow_principal"],
                    "*",
                    _OPERATIONS[operation.lower()],
                    AclPermissionType.ALLOW,
                )


def with_prefix(user: str, prefix: str, sources: Iterable[str]) -> Iterator[AclBinding]:
    """The ACLs of a team that may do everything with names of one prefix, and read some topics of others."""

    def allowed(kind: ResourceType, name: str, pattern: ResourcePatternType, operation: AclOperation) -> AclBinding:
        return AclBinding(kind, name, pattern, user, "*", operation, AclPermissionType.ALLOW)

    for kind in _TYPES.values():
        yield allowed(kind, prefix, ResourcePatternType.PREFIXED, AclOperation.ALL)
    for source in sources:
        yield allowed(ResourceType.TOPIC, source, ResourcePatternType.LITERAL, AclOperation.READ)
