# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree completion``: what a shell asks to complete commands, options and their values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...graph_api.arguments import suggestion
from .options import Command, State
from .output import emit, say

if TYPE_CHECKING:
    from click import Context

__all__ = ["command"]

_VARIABLE = "_HIPDNN_IREE_COMPLETE"
"""What click takes a call for an answer by; the shell's script sets it."""

_USE = {
    "bash": 'eval "$(hipdnn-iree completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(hipdnn-iree completion zsh)" in ~/.zshrc',
    "fish": "hipdnn-iree completion fish > ~/.config/fish/completions/hipdnn-iree.fish",
}

JSON: dict[str, str] = {
    "shell, use": "its name, and how it is told to use the script",
    "script": "the text for the shell",
}


def _known(ctx: Context, param: click.Parameter, value: str | None) -> str:
    """Return the shell that is meant: given, or by the path in the variable SHELL."""
    name = Path(value or "").name
    if name not in _USE:
        found = repr(value) if value else "not given, and the variable SHELL is not set"
        near = suggestion(name, _USE)
        raise click.BadParameter(
            f"it is {found}{near}; wanted one of {', '.join(_USE)}", ctx, param
        )
    return name


@click.command(cls=Command)
@click.argument(
    "shell",
    required=False,
    envvar="SHELL",
    callback=_known,
    shell_complete=lambda ctx, param, word: [name for name in _USE if name.startswith(word)],
)
@click.pass_context
def command(ctx: Context, shell: str) -> None:
    """Print what completes hipdnn-iree in SHELL: bash (4.4 or newer), zsh or fish.

    By default for the shell that the variable SHELL names.  With bash and zsh, put
    `eval "$(hipdnn-iree completion bash)"` into ~/.bashrc (zsh: ~/.zshrc); with fish, write the
    output to ~/.config/fish/completions/hipdnn-iree.fish.
    """
    from click.shell_completion import get_completion_class

    make = get_completion_class(shell)
    assert make is not None, shell
    script = make(ctx.find_root().command, {}, "hipdnn-iree", _VARIABLE).source().strip()
    if ctx.ensure_object(State).json:
        emit({"shell": shell, "use": _USE[shell], "script": script})
    else:
        say(script)
