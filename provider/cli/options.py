# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Options that commands share, and what they set: the `State` of a call, and knobs."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...graph_api.arguments import suggestion
from ...graph_api.errors import SettingError
from ...jit import settings as knobs
from .output import begin, complain, quiet, talk

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ...jit.target import Target

__all__ = [
    "Command",
    "Group",
    "State",
    "buckets_option",
    "case_option",
    "choice_options",
    "emulate_option",
    "engine_knob_option",
    "engine_option",
    "graph_argument",
    "html_option",
    "knob_options",
    "output_option",
    "target_option",
    "trace_option",
]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class State:
    """What the shared options say.

    Attributes
    ----------
    json : bool
        Print one JSON object, for errors as well.
    verbose : int
        Times that ``-v`` was given.
    quiet : bool
        Nothing on stderr but errors.
    traceback : bool
        Show where an internal error came from.
    knobs : dict
        Settings given as options, in the spelling of their variables.
    """

    json: bool = False
    verbose: int = 0
    quiet: bool = False
    traceback: bool = False
    knobs: dict[str, str] = field(default_factory=dict)


def _shared() -> list[click.Parameter]:
    """Return the options that every command has; they can stand before it as well."""

    def store(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        if value:
            setattr(ctx.ensure_object(State), str(param.name), value)

    common: dict[str, Any] = {"expose_value": False, "is_eager": True, "callback": store}
    level = knobs.PREFIX + "LOG_LEVEL"
    return [
        click.Option(["--json"], is_flag=True, help="Print one JSON object on stdout.", **common),
        click.Option(
            ["-v", "--verbose"],
            count=True,
            help=f"Log what is done; -vv: in detail.  [env: {level}]",
            **common,
        ),
        click.Option(
            ["-q", "--quiet"],
            is_flag=True,
            help="Print nothing on stderr but errors: no progress, notes or warnings.",
            **common,
        ),
        click.Option(
            ["--traceback"], is_flag=True, help="Show where an error came from.", **common
        ),
    ]


class _Value(click.types.StringParamType):
    """Text that a shell completes: to a name of ours by its metavar, else to a file."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        kind = param.metavar or ""
        if kind in _NAMES:
            return [CompletionItem(n) for n in _NAMES[kind]() if n.startswith(incomplete)]
        return [CompletionItem(incomplete, type="dir" if kind.endswith("DIR") else "file")]


class _Choice(click.Choice[str]):
    """One of a few words; for another one the error names that which is like it."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        return f"{value!r} is unknown{suggestion(value, self.choices)}; wanted one of " + ", ".join(
            self.choices
        )


def _targets() -> Iterable[str]:
    from ...jit.target import Target

    return Target.known()


def _engines() -> Iterable[str]:
    from ..registry import ENGINES

    return ENGINES


_NAMES: dict[str, Callable[[], Iterable[str]]] = {"TARGET": _targets, "ENGINE": _engines}


class Command(click.Command):
    """A command with the shared options, run under the settings that its options give."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for param in self.params:
            if param.type is click.STRING:
                param.type = _Value()
            elif type(param.type) is click.Choice:
                param.type = _Choice(param.type.choices)
        self.params += _shared()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        begin(_name(ctx))
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, the settings, and what every command takes, apart."""
        settings = {knob.field for knob in knobs.KNOBS}
        every = {param.name for param in _shared()}
        groups: dict[str, list[tuple[str, str]]] = {
            "Options": [],
            "Settings, for this call": [],
            "Options of every command": [],
        }
        own, set_here, shared = groups.values()
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                there = set_here if param.name in settings else own
                common = param.name in every or "--help" in param.opts
                (shared if common else there).append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def invoke(self, ctx: click.Context) -> Any:
        state = ctx.ensure_object(State)
        if ctx.params.pop("emulate", False):
            state.knobs["runtime_emulate"] = _emulated(ctx)
        with (
            quiet(state.quiet),
            knobs.scope(**state.knobs) if state.knobs else _no_settings(),
            _logging(state),
            _recording(ctx),
        ):
            return super().invoke(ctx)


@contextmanager
def _recording(ctx: click.Context) -> Iterator[None]:
    """Record what the command does, if ``--trace`` was given."""
    wanted = ctx.params.pop("trace", None)
    if wanted is None:
        yield
        return
    from ...jit.trace import span, trace
    from .files import file_errors

    path, executions = wanted
    with trace(executions=executions) as found:
        try:
            with span(ctx.command_path, "command"):
                yield
        finally:
            with file_errors(path, "write"):
                found.write(path)
            talk(f"wrote {path}")


def _name(ctx: click.Context) -> str:
    """Return a command as it is typed behind the program's name: ``cache info``."""
    above = _name(ctx.parent) if ctx.parent is not None else None
    return " ".join(filter(None, (above, ctx.info_name))) if above is not None else ""


def _emulated(ctx: click.Context) -> str:
    """Return the GPUs of ``--emulate``: the target, as often as ``--device`` needs."""
    target, number = ctx.params["target"], ctx.ensure_object(State).knobs.get("runtime_device", "0")
    if not target.is_gfx9:
        raise click.UsageError(f"--emulate: an AMD GPU is emulated, and --target is {target}", ctx)
    return ",".join([target.arch] * (int(number) + 1))


_WHOLE = 10_000  # characters


class Group(click.Group):
    """A group of such commands."""

    command_class = Command

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"no_args_is_help": False, **kwargs})
        self.params += _shared()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        begin(_name(ctx))
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with the whole first sentence of their help; click cuts it off."""
        with formatter.section("Commands"):
            formatter.write_dl([(n, self.summary(ctx, n)) for n in self.list_commands(ctx)])

    def summary(self, ctx: click.Context, name: str) -> str:
        """Return the first sentence of a command's help."""
        command = self.get_command(ctx, name)
        return command.get_short_help_str(_WHOLE) if command is not None else ""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            from difflib import get_close_matches

            near = get_close_matches(args[0].lower(), self.list_commands(ctx), 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"No such command {args[0]!r}{hint}", ctx=ctx)
        return super().resolve_command(ctx, args)


@contextmanager
def _no_settings() -> Iterator[None]:
    """Leave the settings alone: a bad variable must not stop ``env`` or ``targets``."""
    yield


class _Talk(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        tell = complain if record.levelno >= logging.ERROR else talk
        tell(f"{record.levelname.lower()}: {self.format(record)}")


@contextmanager
def _logging(state: State) -> Iterator[None]:
    """Send the package's log to stderr, at the level of ``-v`` or of its knob."""
    try:
        level = knobs.settings().log_level
    except SettingError:  # a command that needs settings reports it
        level = "WARNING"
    if state.verbose:
        level = "INFO" if state.verbose == 1 else "DEBUG"
    log, handler = logging.getLogger("hipdnn_iree"), _Talk()
    before = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(level)
    log.propagate = False
    for stray, near in knobs.unknown_variables().items():
        log.warning("%s is no setting%s", stray, f"; did you mean {near}?" if near else "")
    try:
        yield
    finally:
        log.level, log.propagate = before
        log.removeHandler(handler)


# ---------------------------------------------------------------- options of several commands

COMPILING = (
    *("--cache", "--cache-dir", "--opt-level", "--extra-flags", "--tuning-spec", "--tuning-dir"),
    "--timeout",
)
RUNNING = ("--driver", "--threads", "--device")


def knob_options(*names: str) -> Callable[[F], F]:
    """Return a decorator that adds the options of some knobs to a command."""
    by_option = {knob.option: knob for knob in knobs.KNOBS}

    def add(function: F) -> F:
        for name in reversed(names):
            function = _knob_option(name, by_option[name])(function)
        return function

    return add


def _knob_option(name: str, knob: knobs.Knob) -> Callable[[F], F]:
    def store(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is None:
            return
        try:
            knob.parse(value.strip())
        except (ValueError, OSError):
            raise click.BadParameter(
                f"{value!r} is not allowed; allowed: {knob.allowed}", ctx=ctx, param=param
            ) from None
        ctx.ensure_object(State).knobs[knob.field] = value

    if knob.type == "bool":
        return click.option(
            f"{name}/--no-{name.strip('-')}",
            knob.field,
            default=None,
            expose_value=False,
            callback=lambda ctx, param, on: store(ctx, param, on if on is None else str(on)),
            help=f"{knob.help}  [env: {knob.env}]",
        )
    return click.option(
        name,
        knob.field,
        metavar=name.strip("-").upper().replace("-", "_"),
        expose_value=False,
        callback=store,
        help=f"{knob.help}  [env: {knob.env}; {_values(knob)}]",
    )


def _values(knob: knobs.Knob) -> str:
    return f"{knob.allowed}; default: {knob.default}" if knob.default else knob.allowed


def must_need_no_graph(path: str, **options: Any) -> None:
    """Raise a usage error for options that say nothing about an MLIR file."""
    used = [f"--{name.replace('_', '-')}" for name, value in options.items() if value]
    if used:
        raise click.UsageError(f"{', '.join(used)}: for graphs; {path} is an MLIR module")


def graph_argument(function: F) -> F:
    """Add the graph file."""
    return click.argument("graph", metavar="GRAPH")(function)


def target_option(
    *, default: str | None = "cpu", multiple: bool = False, help: str = "Machine to compile for."
) -> Callable[[F], F]:
    """Return a decorator that adds ``--target``; what it gives is a `Target`."""

    def parse(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        from ...jit.target import Target

        def one(text: str) -> Target:
            try:
                return Target.parse(text)
            except SettingError as error:
                raise click.BadParameter(str(error), ctx=ctx, param=param) from None

        if not multiple:
            return one(value)
        return tuple(one(text) for texts in value for text in texts.split(","))

    return click.option(
        "--target",
        "targets" if multiple else "target",
        metavar="TARGET",
        multiple=multiple,
        required=default is None,
        default=default,
        show_default=default is not None,
        callback=parse,
        help=f"{help} `hipdnn-iree targets` lists them.",
    )


def emulate_option(function: F) -> F:
    """Add ``--emulate``, which `Command` takes away: it is the setting of that name."""
    return click.option(
        "--emulate",
        is_flag=True,
        help="Execute on an emulated AMD GPU of the target's kind; results only, no times.  "
        "[env: HIPDNN_IREE_EMULATE]",
    )(function)


def engine_option(function: F) -> F:
    """Add ``--engine``."""
    return click.option(
        "--engine",
        metavar="ENGINE",
        help="Pin an engine by name or alias; it is never replaced by another one. "
        "`hipdnn-iree engines` lists them.",
    )(function)


def choice_options(function: F) -> F:
    """Add ``--prefer`` and ``--policy``."""
    function = click.option(
        "--policy",
        metavar="NAMES",
        help="Who ranks the engines: config, tuned, heuristic, benchmark, autotune, order; the "
        "first that has an opinion.  [env: HIPDNN_IREE_POLICY]",
    )(function)
    return click.option(
        "--prefer",
        metavar="ENGINE",
        multiple=True,
        help="Take this engine if it serves the graph; repeatable, the first one wins.",
    )(function)


def engine_knob_option(function: F) -> F:
    """Add ``--knob``; what it gives is a dict."""

    def parse(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
        found = {}
        for text in value:
            name, _, choice = text.partition("=")
            if not name or not choice:
                raise click.BadParameter(f"{text!r} is not NAME=VALUE", ctx=ctx, param=param)
            found[name] = choice
        return found

    return click.option(
        "--knob",
        "chosen_knobs",
        metavar="NAME=VALUE",
        multiple=True,
        callback=parse,
        help="How the engine builds the graph; repeatable. `hipdnn-iree explain` lists the knobs.",
    )(function)


def buckets_option(help: str) -> Callable[[F], F]:
    """Return a decorator that adds ``--buckets``; what it gives is for ``build``, or None."""

    def parse(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> Any:
        from ...graph_api.buckets import read_buckets

        try:
            return read_buckets(value) if value else None
        except ValueError as error:
            raise click.BadParameter(
                f"{str(error)!r} is none of powers, a number, numbers with commas, or NAME= with "
                "one of these",
                ctx=ctx,
                param=param,
            ) from None

    return click.option(
        "--buckets",
        metavar="[NAME=]B",
        multiple=True,
        callback=parse,
        help=f"{help}: powers of two (powers), multiples (16), or some sizes (8,64); repeatable "
        "with names (n=powers).",
    )


def case_option(function: F) -> F:
    """Add ``--case``; what it gives is a compiled pattern, or None."""

    def parse(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
        try:
            return None if value is None else re.compile(value)
        except re.error as error:
            raise SettingError(f"--case is {value!r}, which is no pattern: {error}") from None

    return click.option(
        "--case",
        "pattern",
        metavar="REGEX",
        callback=parse,
        help="Only cases whose name or tag matches.",
    )(function)


def html_option(function: F) -> F:
    """Add ``--html``; what it gives is the file to write the page to, or None."""
    return click.option(
        "--html",
        "page",
        metavar="FILE",
        help="Write it as a page too (HTML, one file, needs no network).",
    )(function)


def trace_option(*, executions: bool = True) -> Callable[[F], F]:
    """Return a decorator that adds ``--trace``, which `Command` sees to."""

    def given(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
        return None if value is None else (value, executions)

    return click.option(
        "--trace",
        metavar="FILE",
        callback=given,
        help="Write what happened when, in JSON for https://ui.perfetto.dev.",
    )


def output_option(help: str) -> Callable[[F], F]:
    """Return a decorator that adds ``-o``."""
    return click.option("-o", "--output", metavar="FILE", help=help)
