# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The group of commands, and how every error becomes a message and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import click

from ... import __version__
from ...graph_api.errors import DeviceError, FormatError, HipdnnIreeError, NotSupportedError
from .exits import BAD_INPUT, BROKEN_PIPE, INTERNAL, INTERRUPTED, OK, exit_code
from .files import NO_FILE, as_file_error
from .options import Group, State
from .output import begin, complain, emit

__all__ = ["COMMANDS", "app"]

COMMANDS = {
    "run": "Build GRAPH, run it on this machine, and show the result.",
    "bench": "Measure engines side by side on the cases of SUITE, as `sweep` takes them.",
    "sweep": "Build, check and time every case of each SUITE, and append a row of each to RUN.",
    "fuzz": "Draw valid graphs at random, build and check each, and append a row of each to RUN.",
    "compile": "Compile GRAPHS for one or more targets into the cache; no hardware is needed.",
    "artifact": "Make, show and check artifacts: one file with a graph and code for targets.",
    "inspect": "Compile GRAPH anew and show its dispatches: nodes, tiles, registers, least time.",
    "explain": "Say which engines serve GRAPH, why the others decline, and who chooses which one.",
    "tune": "Measure each GRAPH on every engine, built in every way, and remember the times.",
    "report": "Say what is in RUN: what broke, how engines compare, what changed since a baseline.",
    "repro": "Write what repeats a row of RUN: graph, inputs, script, IR and versions.",
    "reduce": "Make GRAPH small while it fails in the same way: wrong, crash, timeout.",
    "show": "Print or convert GRAPH, with everything inferred that the file leaves open.",
    "opt": 'Run passes over FILE.mlir ("-": stdin), in the order in which they are given.',
    "onnx-to-torch": "Write MODEL.onnx as MLIR, for `hipdnn-iree opt`.",
    "engines": "List the engines: name, id, where they are from, what they serve.",
    "ops": "List the operations, or tell all about each OP: ports, parameters, what is served.",
    "targets": "List the targets that code can be compiled for; no hardware is needed for that.",
    "cache": "Look at the cache of compiled code, and look after it.",
    "plugin": "Put the engine into hipDNN, and find out why it does not serve there.",
    "onnx": "Run a model with ONNX Runtime and this provider: `hipdnn-iree onnx MODEL.onnx`.",
    "doctor": "Say what is broken here, and what to do about it; exit code 1 when something is.",
    "env": "Say what is installed, what is set, and what this machine has.",
    "completion": "Print what completes hipdnn-iree in SHELL: bash (4.4 or newer), zsh or fish.",
}
"""The commands, with what their help says first: `--help` imports none of them."""


class App(Group):
    """The commands, each in a module of its name that is imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def summary(self, ctx: click.Context, name: str) -> str:
        return COMMANDS[name]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(
            f".{cmd_name.replace('-', '_')}", __package__
        ).command
        return command

    def main(  # type: ignore[override]  # it never returns
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run one command line; ends with `SystemExit`."""
        words = list(sys.argv[1:] if args is None else args)
        for stream in (sys.stdout, sys.stderr):
            # Names of a graph may be text that the terminal cannot show.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        begin("")
        state = State(json="--json" in words)  # so that a bad command line is told in JSON too
        name = prog_name or "hipdnn-iree"
        self._main_shell_completion({}, name)  # for a shell that asks, which ends the process
        code = OK
        try:
            code = self._call(words or ["--help"], name, state)
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError as error:  # from stdout itself
            code = _lost_output(error, told=code != OK)
        sys.exit(code)

    def _call(self, words: list[str], name: str, state: State) -> int:
        try:
            with self.make_context(name, words, obj=state) as ctx:
                self.invoke(ctx)
            return OK
        except click.exceptions.Exit as event:
            return event.exit_code
        except (KeyboardInterrupt, click.Abort):
            if state.json:
                about = {"code": "E000", "error": "KeyboardInterrupt", "message": "interrupted"}
                emit({"error": {**about, "exit_code": INTERRUPTED}})
            complain("interrupted")
            return INTERRUPTED
        except click.ClickException as error:
            return _usage(error, state)
        except HipdnnIreeError as error:
            return _failed(error, state)
        except BrokenPipeError:
            raise
        except OSError as error:
            return _failed(as_file_error(error), state)
        except MemoryError as error:
            return _failed(DeviceError(f"not enough memory: {error}"), state)
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package == __name__.partition(".")[0]:
                return _internal(error, state)
            text = f"{error}; `hipdnn-iree env` shows what is installed"
            return _failed(NotSupportedError(text), state)
        except Exception as error:
            return _internal(error, state)


def _lost_output(error: OSError, *, told: bool) -> int:
    """Return the exit code when stdout takes no more; ``told``: a message is out already."""
    # What is left in the buffer must not fail again when the interpreter ends.
    with open(os.devnull, "wb") as nowhere, suppress(OSError, ValueError, AttributeError):
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    if not told:
        complain(f"error: {error}")
    return BAD_INPUT


def _usage(error: click.ClickException, state: State) -> int:
    ctx = getattr(error, "ctx", None)
    text = error.format_message()
    if ctx is not None and isinstance(ctx.command, Group) and not _about_an_option(error):
        known = ", ".join(ctx.command.list_commands(ctx))
        where = "" if ctx.parent is None else f", in {ctx.info_name}"
        text = f"{text.rstrip('.')}; there are{where}: {known}"
    if state.json:
        about = {"code": "E000", "error": type(error).__name__, "message": text}
        emit({"error": {**about, "exit_code": BAD_INPUT}})
    elif ctx is not None:
        complain(ctx.get_usage())
    complain(f"error: {text}")
    if ctx is not None:
        complain(f"'{ctx.command_path} --help' says more")
    return BAD_INPUT


def _about_an_option(error: click.ClickException) -> bool:
    return isinstance(error, click.NoSuchOption | click.BadOptionUsage | click.BadParameter)


def _failed(error: HipdnnIreeError, state: State) -> int:
    if state.traceback:
        _print_traceback(error)
    code = exit_code(error)
    if state.json:
        emit({"error": {**error.as_dict(), "exit_code": code}})
    complain(f"error [{error.code}]: {_words(error)}")
    return code


def _words(error: HipdnnIreeError) -> str:
    """Return the text of an error; one line for a file that is not there and the like."""
    if isinstance(error, FormatError) and [p.rule for p in error.problems] == [NO_FILE]:
        return error.message
    return str(error)


def _internal(error: Exception, state: State) -> int:
    if state.traceback:
        _print_traceback(error)
    text = str(error).partition("\n")[0]
    if state.json:
        about = {"code": "E900", "error": type(error).__name__, "message": text}
        emit({"error": {**about, "exit_code": INTERNAL}})
    complain(f"internal error: {type(error).__name__}: {text}")
    if not state.traceback:
        complain("this is a bug; repeat it with --traceback and report what it shows")
    return INTERNAL


def _print_traceback(error: BaseException) -> None:
    import traceback

    complain("".join(traceback.format_exception(error)).rstrip())


@click.group(cls=App, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hipdnn-iree")
def app() -> None:
    """Compile, run, check and look at hipDNN operation graphs.

    Data goes to stdout, talk to stderr.  Exit codes: 0 done, 1 a check failed, 2 bad usage, file
    or graph, 3 not supported here, 4 the compiler failed, 5 internal error.
    """
