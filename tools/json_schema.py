# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""JSON Schemas of files that people and other programs write, from the classes that read them.

What the docstring of a class says of an attribute is the description of the key.
"""

from __future__ import annotations

import re
import sys
from inspect import cleandoc
from typing import Any

from click import Command, Context, Group
from hipdnn_iree.provider.cli.app import app
from hipdnn_iree.provider.cli.json_forms import FORMS, Failure, Form
from hipdnn_iree.provider.cli.output import SCHEMA_VERSION
from hipdnn_iree.provider.selection.engine_rules import EngineRule, EngineRules, TensorPattern
from hipdnn_iree.provider.selection.winner_entry import Entry, MatchNote, WinnersFile
from hipdnn_iree.provider.sweep.schema import (
    CaseEntry,
    DrawEntry,
    IncludeEntry,
    NodeEntry,
    RangeEntry,
    ResultEntry,
    SuiteEntry,
    TensorEntry,
)
from msgspec import Struct
from msgspec.json import schema_components
from msgspec.structs import fields

__all__ = ["commands", "described_keys", "engine_rules", "suite", "winners"]

Schema = dict[str, Any]


def engine_rules() -> Schema:
    """Return the JSON Schema of hipDNN's engine override rules."""
    return _of_file(EngineRules, _described(EngineRules, EngineRule, TensorPattern))


def winners() -> Schema:
    """Return the JSON Schema of a file of measured times."""
    return _of_file(WinnersFile, _described(WinnersFile, Entry, MatchNote))


def suite() -> Schema:
    """Return the JSON Schema of suite files.

    A case and a node take further keys: the ports and parameters of an op.
    """
    found = _described(
        SuiteEntry,
        CaseEntry,
        NodeEntry,
        TensorEntry,
        ResultEntry,
        RangeEntry,
        DrawEntry,
        IncludeEntry,
    )
    found["CaseEntry"]["properties"]["nodes"]["items"] = {"$ref": "#/$defs/NodeEntry"}
    for holder in (found["CaseEntry"], found["SuiteEntry"]):
        holder["properties"]["cases"] |= {"items": {"$ref": "#/$defs/CaseEntry"}, "minItems": 1}
    for name in ("CaseEntry", "TensorEntry", "ResultEntry"):
        found[name]["properties"] = _or_expression(found[name]["properties"])
    return _of_file(SuiteEntry, found)


def commands() -> Schema:
    """Return the JSON Schema of what commands print with ``--json``.

    ``$defs`` has one by the name of each command, and ``error`` for those that have failed.
    """
    kinds = {kind for forms in FORMS.values() for kind in forms}
    _, found = schema_components([*kinds, Failure], ref_template="#/$defs/{name}")
    whole: dict[str, Schema] = {"error": _of_command(found[Failure.__name__], {}, None)}
    for name, forms in FORMS.items():
        about = described_keys(name)
        each = [_of_command(found[kind.__name__], about, name) for kind in forms]
        whole[name] = each[0] if len(each) == 1 else {"anyOf": each}
    tops = {kind.__name__ for kind in (*kinds, Failure, Form)}
    parts = {name: entry for name, entry in sorted(found.items()) if name not in tops}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What commands of hipdnn-iree print with --json",
        "anyOf": [{"$ref": f"#/$defs/{name.replace(' ', '%20')}"} for name in whole],
        "$defs": {**whole, **parts},
    }


def _of_command(form: Schema, about: dict[str, str], name: str | None) -> Schema:
    """Return the schema of one command: its name is a constant, its keys are described."""
    properties = {
        key: {**entry, "description": about[key]} if key in about else entry
        for key, entry in form["properties"].items()
    }
    properties["schema_version"] = {"const": SCHEMA_VERSION}
    if name is not None:
        properties["command"] = {"const": name}
    return {**form, "title": name or "error", "properties": properties}


def described_keys(name: str) -> dict[str, str]:
    """Return what the table ``JSON`` of a command's module says of each key."""
    words = name.split()
    command: Command | None = app
    for word in words:
        if isinstance(command, Group):
            command = command.get_command(Context(command), word)
        else:
            command = getattr(command, "INNER", {}).get(word)
    assert command is not None, name
    assert command.callback is not None, name
    table = sys.modules[command.callback.__module__].__dict__["JSON"]
    if isinstance(table.get(words[-1]), dict):
        table = table[words[-1]]
    return {key.strip(): text for keys, text in table.items() for key in keys.split(",")}


def _or_expression(schema: Any) -> Any:
    """Return a schema in which a text, an expression of axes, may stand for a number or a word."""
    if isinstance(schema, list):
        return [_or_expression(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _or_expression(value) for key, value in schema.items()}
    if found.get("type") not in ("integer", "number", "boolean") and "enum" not in found:
        return found
    about = {key: found.pop(key) for key in ("description", "default") if key in found}
    return {"anyOf": [found, {"type": "string"}], **about}


def _described(*kinds: type[Struct]) -> dict[str, Schema]:
    """Return the schemas of some classes by name, with what their docstrings say."""
    _, found = schema_components(kinds, ref_template="#/$defs/{name}")
    for kind in kinds:
        entry = found[kind.__name__]
        entry["description"], about = _documented(kind)
        for field in fields(kind):
            entry["properties"][field.encode_name]["description"] = about[field.name]
    return found


def _of_file(kind: type[Struct], found: dict[str, Schema]) -> Schema:
    """Return the schema of a file that holds one object of a class."""
    root = found.pop(kind.__name__)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **root, "$defs": found}


def _documented(kind: type[Struct]) -> tuple[str, dict[str, str]]:
    """Return what the docstring says of an entry, and of each attribute (bases included)."""
    about: dict[str, str] = {}
    text = ""
    for base in reversed(kind.__mro__[:-2]):
        text, _, rest = cleandoc(base.__doc__ or "").partition("\n\nAttributes\n----------\n")
        for names, meaning in re.findall(r"^(\w.*)\n((?:    .*\n?)+)", rest, re.MULTILINE):
            about |= dict.fromkeys(names.split(", "), " ".join(meaning.split()))
    return " ".join(text.split()), about
