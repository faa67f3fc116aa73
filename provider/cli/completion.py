"""``hipdnn-iree completion``: what a shell asks to complete commands, options and their values."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import Command, State
from .output import emit, say

if TYPE_CHECKING:
    from click import Context

__all__ = ["VARIABLE", "answer", "command"]

VARIABLE = "_HIPDNN_IREE_COMPLETE"
"""Set by the script of a shell, which calls ``hipdnn-iree`` at each press of the key."""

_USE = {
    "bash": 'eval "$(hipdnn-iree completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(hipdnn-iree completion zsh)" in ~/.zshrc',
    "fish": "hipdnn-iree completion fish > ~/.config/fish/completions/hipdnn-iree.fish",
}

JSON: dict[str, str] = {
    "shell, use": "its name, and how it is told to use the script",
    "script": "the text for the shell",
}


def answer(app: click.Command, instruction: str) -> int:
    """Answer a shell: its script, or what a word can be completed to; return the exit code."""
    from click.shell_completion import shell_complete

    return shell_complete(app, {}, "hipdnn-iree", VARIABLE, instruction)


def _own_shell() -> str:
    return Path(os.environ.get("SHELL", "")).name


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(list(_USE)), required=False)
@click.pass_context
def command(ctx: Context, shell: str | None) -> None:
    """Print what completes hipdnn-iree in SHELL: bash (4.4 or newer), zsh or fish.

    By default for the shell that the variable SHELL names.  With bash and zsh, put
    `eval "$(hipdnn-iree completion bash)"` into ~/.bashrc (zsh: ~/.zshrc); with fish, write the
    output to ~/.config/fish/completions/hipdnn-iree.fish.
    """
    from click.shell_completion import get_completion_class

    name = shell or _own_shell()
    if name not in _USE:
        known = ", ".join(_USE)
        raise click.UsageError(f"SHELL is {name or 'not set'}; give one of {known}", ctx)
    make = get_completion_class(name)
    assert make is not None, name
    script = make(ctx.find_root().command, {}, "hipdnn-iree", VARIABLE).source().strip()
    if ctx.ensure_object(State).json:
        emit({"shell": name, "use": _USE[name], "script": script})
    else:
        say(script)
