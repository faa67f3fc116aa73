# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree plugin``: the library that hipDNN loads, and what may stop it."""

from __future__ import annotations

from pathlib import Path

import click

from ...graph_api.errors import SettingError
from ...hipdnn_plugin import doctor as diagnosis
from ...hipdnn_plugin import library
from ...jit.settings import settings
from .exits import CHECK_FAILED
from .options import Group, State
from .output import emit, label, say, shown

JSON: dict[str, dict[str, str]] = {
    "path": {
        "library": "the file",
        "folder": "what HIPDNN_PLUGIN_DIR may be set to, which holds no other library",
        "version": "version of the package",
    },
    "install": {"library": "the copy", "record": "the file that says which Python it belongs to"},
    "doctor": {
        "ok": "whether nothing stops hipDNN",
        "findings": "of each `check`, `state` (`ok`, `note`, `problem`), `text`, and of a problem "
        "the `cause` (deployments.md)",
    },
}


@click.group(cls=Group)
def command() -> None:
    """Put the engine into hipDNN, and find out why it does not serve there.

    The library starts the Python that this command runs in, with its packages.
    """


@command.command()
@click.pass_obj
def path(state: State) -> None:
    """Say where the library is; it is built first where none was shipped."""
    from ... import __version__

    found = library.LIBRARY.find(settings())
    if state.json:
        emit({"library": str(found), "folder": str(found.parent), "version": __version__})
        return
    say(str(found))


@command.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.pass_obj
def install(state: State, folder: Path) -> None:
    """Copy the library into a hipDNN plugin folder, which is made if need be.

    Beside it goes a record of the Python that it belongs to.  hipDNN's default folder is
    hipdnn_plugins/engines beside libhipdnn_backend.so.
    """
    copy = library.LIBRARY.install(folder, settings())
    if state.json:
        emit({"library": str(copy), "record": f"{copy}.python"})
        return
    say(f"installed {shown(str(copy))}")


@command.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), required=False)
@click.pass_obj
def doctor(state: State, folder: Path | None) -> None:
    """Look for what would stop hipDNN from using the engine; exit code 1 when something does.

    FOLDER is the plugin folder to look at; by default HIPDNN_PLUGIN_DIR, else the folders
    beside the hipDNN backends that can be found.
    """
    try:
        findings = diagnosis.examine(settings(), folder)
    except SettingError as error:
        findings = [diagnosis.finding("settings", "SETTING", error)]
    stopped = [f for f in findings if f.state == "problem"]
    if state.json:
        emit({"ok": not stopped, "findings": [f.as_dict() for f in findings]})
    else:
        for finding in findings:
            say(f"{label(finding.state, 8)} {finding.check:10} {shown(finding.text)}")
    if stopped:
        raise click.exceptions.Exit(CHECK_FAILED)
