"""Classes of protobuf messages made from tables, so that no compiler of protobuf is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Fields = Sequence[tuple[int, str, str]]
"""Number, name and kind of each field: a name of `_KINDS`, or ``.package.Message``; perhaps ``repeated`` before it."""

_KINDS = {"float": 2, "int64": 3, "int32": 5, "string": 9, "bytes": 12}  # FieldDescriptorProto.Type
_MESSAGE = 11
_OPTIONAL, _REPEATED = 1, 3  # FieldDescriptorProto.Label


def message_classes(
    package: str, syntax: str, messages: Mapping[str, Fields], imports: Iterable[Any] = ()
) -> dict[str, Any]:
    """Make the classes of a package's messages.

    They are in a pool of their own, where they meet no other messages of their names.

    Args:
        package: the messages' package.
        syntax: "proto2" or "proto3".
        messages: the fields of each message by its name. One that is nested in another has that one's name and a dot
            before its own, and comes after it; one whose name ends in Entry is the entry of a map.
        imports: descriptors of files whose messages are fields' kinds.

    Returns:
        The class of each message, by its name in `messages`.

    Raises:
        ImportError: the package protobuf is not installed.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax=syntax)
    for imported in imports:
        pool.AddSerializedFile(imported.serialized_pb)
        file.dependency.append(imported.name)
    made: dict[str, Any] = {}
    for name, fields in messages.items():
        outer, _, own = name.rpartition(".")
        made[name] = made[outer].nested_type.add(name=own) if outer else file.message_type.add(name=own)
        if own.endswith("Entry"):
            made[name].options.map_entry = True
        _add_fields(made[name], fields)
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in messages}


def _add_fields(message: Any, fields: Fields) -> None:
    for number, name, kind in fields:
        item = kind.removeprefix("repeated ")
        field = message.field.add(number=number, name=name, label=_OPTIONAL if item == kind else _REPEATED)
        if item.startswith("."):
            field.type, field.type_name = _MESSAGE, item
        else:
            field.type = _KINDS[item]
