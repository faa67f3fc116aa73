"""The table of settings: of each one its variable, type, default, meaning and allowed values.

A knob is one annotated line of `Settings`; `KNOBS` is made from those lines and feeds the
documentation and ``hipdnn-iree env``.  How values are found is in `knobs`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from . import settings_kinds as kinds

__all__ = ["DATA_TILING", "HIPDNN_PREFIX", "KNOBS", "OPT_LEVELS", "PREFIX", "Knob", "Settings"]

PREFIX = "HIPDNN_IREE_"
HIPDNN_PREFIX = "HIPDNN_HEUR_"
"""Of hipDNN's own variables about the choice of engines."""

OPT_LEVELS = ("O0", "O1", "O2", "O3")
DATA_TILING = ("auto", "off")


@dataclass(frozen=True, kw_only=True, slots=True)
class Knob:
    """What is known of one setting without its value.

    Attributes
    ----------
    name : str
        Dotted name such as ``"compiler.timeout_s"``.
    field : str
        Attribute of `Settings` and keyword of `scope`: the name with an underscore for the dot.
    env : str
        Environment variable.
    type : str
        Type of the value, as annotated.
    default : str
        The default in the spelling of the variable; ``""`` when it is empty or computed.
    allowed : str
        What values are taken, in words.
    help : str
        One line on what it does.
    in_cache_key : bool
        Whether it can change compiled code and therefore is part of the cache key.
    parse : callable
        Text to value; raises ValueError.
    """

    name: str
    field: str
    env: str
    type: str
    default: str
    allowed: str
    help: str
    in_cache_key: bool
    parse: Callable[[str], Any]


def _knob(
    env: str,
    default: str,
    parse: Callable[[str], Any],
    allowed: str,
    help: str,
    *,
    in_cache_key: bool = False,
    prefix: str = PREFIX,
) -> dict[str, Any]:
    return {
        "env": prefix + env,
        "default": default,
        "parse": parse,
        "allowed": allowed,
        "help": help,
        "in_cache_key": in_cache_key,
    }


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings at one moment; made by `settings`."""

    cache_dir: Path = field(
        metadata=_knob(
            "CACHE_DIR",
            "",
            kinds.path,
            "a folder; it is made when needed",
            "Where compiled code is kept; by default $XDG_CACHE_HOME/hipdnn-iree, "
            "else ~/.cache/hipdnn-iree.",
        )
    )
    cache_mode: str = field(
        metadata=_knob(
            "CACHE",
            "on",
            *kinds.choice("on", "off", "verify"),
            "on: use it; off: neither read nor write it; verify: compile anyway and compare.",
        )
    )
    cache_max_bytes: int = field(
        metadata=_knob(
            "CACHE_MAX_BYTES",
            "2G",
            kinds.nbytes,
            "a positive number of bytes, with an optional K, M, G or T (powers of 1024)",
            "Size above which the entries that were not used for longest are removed.",
        )
    )
    cache_require_precompiled: bool = field(
        metadata=_knob(
            "REQUIRE_PRECOMPILED",
            "off",
            kinds.switch,
            "on | off",
            "on: a build that would compile is an error that says what is missing.",
        )
    )
    compiler_mode: str = field(
        metadata=_knob(
            "COMPILER_MODE",
            "worker",
            *kinds.choice("worker", "cli"),
            "worker: IREE's library in a child process that stays; cli: iree-compile each time.",
        )
    )
    compiler_timeout_s: float = field(
        metadata=_knob(
            "COMPILER_TIMEOUT_S",
            "300",
            kinds.seconds,
            "a positive number of seconds",
            "Time after which a compilation is stopped and reported as an error.",
        )
    )
    compiler_jobs: int = field(
        metadata=_knob(
            "COMPILER_JOBS",
            "0",
            *kinds.count(0, 256),
            "Compilations that may run at once in this process; 0: one per CPU, at most 4.",
        )
    )
    compiler_idle_s: float = field(
        metadata=_knob(
            "COMPILER_IDLE_S",
            "300",
            kinds.seconds,
            "a positive number of seconds",
            "Time without work after which a compiler worker leaves, to free 180 MB of memory.",
        )
    )
    compiler_python: Path | None = field(
        metadata=_knob(
            "PYTHON",
            "",
            kinds.path,
            "path of a Python executable",
            "Interpreter that the plugin starts and that runs the compiler worker; "
            "by default the one that runs this code.",
        )
    )
    compiler_extra_flags: tuple[str, ...] = field(
        metadata=_knob(
            "EXTRA_FLAGS",
            "",
            kinds.flags,
            "flags of iree-compile, each --name or --name=value, quoted as in a shell",
            "Appended to the compiler flags; a flag that is already there is replaced.",
            in_cache_key=True,
        )
    )
    compiler_opt_level: str = field(
        metadata=_knob(
            "OPT_LEVEL",
            "O3",
            *kinds.choice(*OPT_LEVELS),
            "Optimisation level of the compiler.",
            in_cache_key=True,
        )
    )
    compiler_data_tiling: str = field(
        metadata=_knob(
            "DATA_TILING",
            "auto",
            *kinds.choice(*DATA_TILING),
            "CPU: whether operands of products are repacked into tiles; auto: where it is right.",
            in_cache_key=True,
        )
    )
    compiler_strategies: tuple[str, ...] = field(
        metadata=_knob(
            "STRATEGIES",
            "",
            kinds.strategies,
            "OP=STRATEGY (docs/strategies.md lists them) or one for all ops, separated by commas",
            "How ops are expressed in IR; `plain` is each op as it comes, for comparison.",
            in_cache_key=True,
        )
    )
    compiler_tuning_spec: Path | None = field(
        metadata=_knob(
            "TUNING_SPEC",
            "",
            kinds.path,
            "path of a file",
            "IREE tuning spec (MLIR) that picks kernel configurations; its content is in the key.",
            in_cache_key=True,
        )
    )
    compiler_tuning_dir: Path | None = field(
        metadata=_knob(
            "TUNING_DIR",
            "",
            kinds.path,
            "a folder with files such as gfx942.mlir and mi300x.mlir",
            "Tuning specs by product or architecture, where no file is named.",
            in_cache_key=True,
        )
    )
    reproducers_dir: Path = field(
        metadata=_knob(
            "REPRODUCERS_DIR",
            "",
            kinds.path,
            "a folder; it is made when needed",
            "Where failed compilations leave what repeats them; by default in the cache folder.",
        )
    )
    reproducers_keep: int = field(
        metadata=_knob(
            "REPRODUCERS_KEEP",
            "20",
            *kinds.count(0, 100_000),
            "How many of them are kept, the newest; 0: none is written.",
        )
    )
    plugin_device: str = field(
        metadata=_knob(
            "PLUGIN_DEVICE",
            "auto",
            *kinds.choice("auto", "cpu", "hip"),
            "What the plugin runs on; auto: a GPU if there is one, else the CPU and host pointers.",
        )
    )
    plugin_libpython: Path | None = field(
        metadata=_knob(
            "LIBPYTHON",
            "",
            kinds.path,
            "path of a file",
            "Shared libpython that the plugin loads in a program without Python; "
            "by default that of its interpreter.",
        )
    )
    foreign_plugins: tuple[Path, ...] = field(
        metadata=_knob(
            "PLUGINS",
            "",
            kinds.paths,
            "files and folders, joined by ':'",
            "Engine plugins of others that serve as engines, besides those in hipDNN's folder.",
        )
    )
    foreign_mode: str = field(
        metadata=_knob(
            "PLUGINS_MODE",
            "additive",
            *kinds.choice("additive", "absolute", "off"),
            "additive: plugins in hipDNN's folder and those named; absolute: only those named; "
            "off: none.",
        )
    )
    foreign_device: str = field(
        metadata=_knob(
            "FOREIGN_DEVICE",
            "auto",
            *kinds.choice("auto", "cpu", "hip"),
            "What pointers engine plugins of others are given; auto: a GPU's if there is one, "
            "else host pointers.",
        )
    )
    foreign_era: str = field(
        metadata=_knob(
            "FOREIGN_ERA",
            "auto",
            *kinds.choice("auto", "n25", "node"),
            "Wire format that engine plugins of others read; auto: told from the functions that "
            "they have.",
        )
    )
    foreign_isolate: str = field(
        metadata=_knob(
            "FOREIGN_ISOLATE",
            "load",
            *kinds.choice("load", "graph", "build", "run"),
            "What an engine plugin must first do well in a process of its own: load, answer for "
            "a graph, build it, run it.",
        )
    )
    foreign_timeout_s: float = field(
        metadata=_knob(
            "FOREIGN_TIMEOUT_S",
            "60",
            kinds.seconds,
            "a positive number of seconds",
            "Time that a plugin of others is given for each call in a process of its own.",
        )
    )
    foreign_backend: Path | None = field(
        metadata=_knob(
            "HIPDNN_BACKEND",
            "",
            kinds.path,
            "path of a file",
            "libhipdnn_backend.so, for the engines of hipDNN itself; by default it is looked for.",
        )
    )
    log_level: str = field(
        metadata=_knob(
            "LOG_LEVEL",
            "WARNING",
            *kinds.choice("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
            "Level of the loggers under 'hipdnn_iree' in the command line and in the plugin.",
        )
    )
    graph_backward_operands: str = field(
        metadata=_knob(
            "BACKWARD_OPERANDS",
            "dy_x",
            *kinds.choice("dy_x", "x_dy"),
            "What in_0 and in_1 of a pointwise backward mode are in graph files.",
        )
    )
    graph_resize_coordinates: str = field(
        metadata=_knob(
            "RESIZE_COORDINATES",
            "half_pixel",
            *kinds.choice("half_pixel", "align_corners", "asymmetric"),
            "Where elements lie for the resample modes BILINEAR and NEAREST, in graph files that "
            "do not say it.",
        )
    )
    graph_inv_variance: str = field(
        metadata=_knob(
            "INV_VARIANCE",
            "auto",
            *kinds.choice("auto", "inverse", "variance"),
            "What inv_variance is in hipDNN's graphs; auto: the variance in those of 2025, "
            "else 1/√(variance + ε).",
        )
    )
    runtime_driver: str = field(
        metadata=_knob(
            "DRIVER",
            "auto",
            *kinds.choice("auto", "local-sync", "local-task"),
            "How CPU code runs: in the calling thread or on worker threads; auto: on threads from "
            "60 microseconds of one core on.",
        )
    )
    runtime_threads: int = field(
        metadata=_knob(
            "THREADS",
            "0",
            *kinds.count(0, 4096),
            "Worker threads of local-task; 0: as many as the runtime finds useful.",
        )
    )

    engine_policy: tuple[str, ...] = field(
        metadata=_knob(
            "POLICY",
            "",
            kinds.words,
            "names of policies (config, tuned, heuristic, autotune, order), separated by commas",
            "Who ranks the engines that serve a graph; by default HIPDNN_HEUR_POLICY_ORDER, "
            "else config,tuned,order.",
        )
    )
    engine_deselect: tuple[str, ...] = field(
        metadata=_knob(
            "DESELECT",
            "",
            kinds.words,
            "names, aliases or ids of engines, separated by commas",
            "Engines that are not chosen unless they are pinned.",
        )
    )
    engine_winners: Path = field(
        metadata=_knob(
            "WINNERS",
            "",
            kinds.path,
            "path of a file; it is made when needed",
            "Where times measured by autotuning are kept; by default winners.json "
            "in the cache folder.",
        )
    )
    engine_policy_order: tuple[str, ...] = field(
        metadata=_knob(
            "POLICY_ORDER",
            "",
            kinds.words,
            "names or ids of hipDNN's policies, separated by commas",
            "hipDNN's own list of policies, for when HIPDNN_IREE_POLICY is not set.",
            prefix=HIPDNN_PREFIX,
        )
    )
    engine_config: Path | None = field(
        metadata=_knob(
            "CONFIG_PATH",
            "",
            kinds.path,
            "path of a file",
            "hipDNN's engine override rules (JSON), for the policy config.",
            prefix=HIPDNN_PREFIX,
        )
    )
    engine_order: tuple[str, ...] = field(
        metadata=_knob(
            "FALLBACK_ENGINE_ORDER",
            "",
            kinds.words,
            "names, aliases or ids of engines, separated by commas",
            "Order of engines for the policy order, which leaves out those not named.",
            prefix=HIPDNN_PREFIX,
        )
    )


KNOBS: tuple[Knob, ...] = tuple(
    Knob(name=f.name.replace("_", ".", 1), field=f.name, type=str(f.type), **f.metadata)
    for f in fields(Settings)
)
"""Every knob, in the order of the documentation."""


def with_values(settings: Settings, **values: Any) -> Settings:
    """Return settings with some of them replaced, in their types or in the spelling of a variable.

    Raises
    ------
    ValueError
        If a value is not allowed.
    """
    known = {knob.field: knob for knob in KNOBS}
    parsed = {name: known[name].parse(kinds.spell(value)) for name, value in values.items()}
    return replace(settings, **parsed)
