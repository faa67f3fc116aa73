# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What ``--json`` prints has a published form; `conftest.Outcome.json` holds every output to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from hipdnn_iree.provider.cli.app import COMMANDS, app
from hipdnn_iree.provider.cli.json_forms import FORMS
from hipdnn_iree.provider.cli.output import SCHEMA_VERSION
from json_output import checked
from msgspec import ValidationError
from msgspec.structs import fields

from tools.json_schema import commands, described_keys

Cli = Callable[..., Any]


def names(group: click.Group, *above: str) -> Iterator[str]:
    for word in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), word)
        if isinstance(command, click.Group):
            yield from names(command, *above, word)
        else:
            yield " ".join((*above, word))
            yield from (" ".join((*above, word, w)) for w in getattr(command, "INNER", {}))


def test_every_command_has_a_form() -> None:
    assert set(names(app)) == set(FORMS)


@pytest.mark.parametrize("name", FORMS)
def test_the_keys_of_a_form_are_described(name: str) -> None:
    keys = {field.encode_name for form in FORMS[name] for field in fields(form)}
    described = set(described_keys(name)) - {"tensors", "..."}  # of show: hipDNN's graph JSON
    # An error alone has a form of its own.
    assert keys - {"schema_version", "command", "error"} == described - {"error"}


@pytest.mark.parametrize(
    "words", [("targets",), ("cache", "info"), ("env",), ("completion", "bash"), ("nothing",)]
)
def test_every_object_names_its_version_and_command(cli: Cli, words: tuple[str, ...]) -> None:
    found = json.loads(cli(*words, "--json").out)
    assert list(found)[:2] == ["schema_version", "command"]
    assert found["schema_version"] == SCHEMA_VERSION
    wanted = {"nothing": "", "completion bash": "completion"}
    assert found["command"] == wanted.get(" ".join(words), " ".join(words))
    checked(found)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"targets": [{"target": 1}]}, "targets"),
        ({"more": 1}, "unknown field `more`"),
        ({"schema_version": SCHEMA_VERSION + 1}, "schema_version"),
        ({"command": "nothing"}, "prints no form"),
    ],
)
def test_another_form_is_noticed(cli: Cli, change: dict[str, Any], text: str) -> None:
    found = json.loads(cli("targets", "--json").out)
    checked(found)
    with pytest.raises(ValidationError, match=text):
        checked({**found, **change})
    with pytest.raises(ValidationError, match="missing required field `targets`"):
        checked({k: v for k, v in found.items() if k != "targets"})


def test_the_schema_has_every_command_by_name() -> None:
    schema = commands()
    assert {*FORMS, "error"} <= set(schema["$defs"])
    cache = schema["$defs"]["cache info"]
    assert cache["properties"]["command"] == {"const": "cache info"}
    assert cache["properties"]["schema_version"] == {"const": SCHEMA_VERSION}
    assert cache["properties"]["root"] == {"type": "string", "description": "the folder"}
    assert cache["additionalProperties"] is False
    text = json.dumps(schema)
    for ref in {part.partition('"')[0] for part in text.split('"#/$defs/')[1:]}:
        assert ref.replace("%20", " ") in schema["$defs"]


def test_ids_of_engines_are_text(cli: Cli, graphs: Path) -> None:
    """They exceed 2**53, at which JSON's numbers end in most programs."""
    rows = cli("engines", "--json").json()["engines"]
    assert all(isinstance(row["id"], str) and abs(int(row["id"])) > 2**53 for row in rows)
    about = cli("explain", graphs / "add.json", "--json").json()
    ids = [about["chosen"]["engine_id"], *(c["engine_id"] for c in about["candidates"])]
    assert set(ids) <= {row["id"] for row in rows}


def test_the_list_of_commands_says_what_their_help_says(cli: Cli) -> None:
    ctx = click.Context(app)
    for name, summary in COMMANDS.items():
        command = app.get_command(ctx, name)
        assert command is not None
        assert command.get_short_help_str(10_000) == summary, name
    whole = " ".join(cli("--help").out.split())
    assert all(" ".join(summary.split()) in whole for summary in COMMANDS.values())
    assert "..." not in whole.partition("Commands:")[2]
    inner = " ".join(cli("artifact", "--help").out.split())
    assert "Check every byte of FILE, and that graph and code belong together; exit" in inner
