# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The rules for third-party plugins, from their files to their answers."""

from __future__ import annotations

from ....graph_api.errors import Problem

__all__ = ["RULES", "MisfitError", "problem"]

RULES: dict[str, str] = {
    "FOREIGN-01": "a plugin is a regular file whose own name, links resolved, ends in .so",
    "FOREIGN-02": "a plugin can be loaded, and has every function that hipDNN requires",
    "FOREIGN-03": "a plugin is of the type ENGINE and of engine API 0.x or 1.x",
    "FOREIGN-04": "a plugin answers within its time and does not crash, also when its process ends",
    "FOREIGN-05": "a plugin has one engine or more, each id once, and names them twice alike",
    "FOREIGN-06": "the id of an engine is the hash of its name, where it has one",
    "FOREIGN-07": "an engine id belongs to the plugin that is found first",
    "FOREIGN-08": "the target is what plugins run on here: the CPU, or this machine's GPU",
    "FOREIGN-09": "the engine API of the plugin is not older than what the graph needs",
    "FOREIGN-10": "the plugin says that the engine is applicable to the graph",
    "FOREIGN-11": "a call succeeds and sets its results: pointers, sizes, ids of the plugin's own",
    "FOREIGN-12": "nobody but its user and root may write a plugin, or exchange a folder above it",
}
"""Rule id -> what must hold."""


class MisfitError(Exception):
    """A rule that a plugin breaks, before it is reported as an error of the project."""

    def __init__(self, found: Problem) -> None:
        super().__init__(str(found))
        self.problem = found


def problem(rule: str, where: str, got: object, wanted: str, hint: str = "") -> Problem:
    """Return a problem of a plugin; ``where`` is the call or the part at fault."""
    return Problem(rule=rule, port=where, got=str(got), wanted=wanted, hint=hint)
