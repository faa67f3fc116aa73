# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command lines of MIOpenDriver and of Fusilli's benchmark driver: flags, and how to read them.

Facts from ``driver/*_driver.hpp`` of MIOpen (7.0) and ``benchmarks/driver.cpp`` of Fusilli.  A flag
takes the next word, but those without a value (``switch``).  Flags that say how to measure are
known and do not change the problem.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...graph_api.errors import Problem
from .graphs import nearest, problem

__all__ = ["COMMANDS", "RULES", "Command", "Line", "is_line", "parse"]

RULES: dict[str, str] = {
    "DRIVER-01": "a line begins with a command of MIOpenDriver or Fusilli's driver that is known",
    "DRIVER-02": "a flag is one of its command's, with a value",
    "DRIVER-03": "the value of a flag is one that hipDNN has an operation for",
    "DRIVER-04": "numbers of a line make tensors that fit each other",
}

Value = int | float | str | bool
_PROGRAMS = re.compile(r"(.*/)?(MIOpenDriver|fusilli_benchmark_driver)$")
_TYPES = {"": "float", "fp16": "half", "bfp16": "bfloat16", "fp64": "double", "int8": "int8",
          "fp16fp32": "half", "bfp16fp32": "bfloat16"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Command:
    """A sub-command: its flags by their long names.

    Attributes
    ----------
    flags : mapping
        Long name to short name and default; the type of the default is that of the value.  A
        default of False makes a flag without a value.
    measuring : mapping
        The same for flags that do not change the problem.
    types : tuple of str
        What its name may end with.
    """

    flags: Mapping[str, tuple[str, Value]]
    measuring: Mapping[str, tuple[str, Value]]
    types: tuple[str, ...] = ("",)


@dataclass(slots=True)
class Line:
    """A line that was read: command, element type, the flags with their defaults, what is wrong."""

    text: str
    command: str = ""
    dtype: str = "float"
    given: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def __getitem__(self, flag: str) -> Any:
        return self.given[flag]

    def add(self, rule: str, flag: str, got: object, wanted: str, hint: str = "") -> None:
        """Note what is wrong."""
        self.problems.append(problem(rule, self.text[:120], flag, got, wanted, hint))


def _flags(text: str) -> dict[str, tuple[str, Value]]:
    """Return flags from lines of ``long short default``; - is no short name or an empty text."""
    found: dict[str, tuple[str, Value]] = {}
    for line in filter(str.strip, text.splitlines()):
        long, short, default = line.split()
        found[long] = ("" if short == "-" else short, _default(default))
    return found


def _default(text: str) -> Value:
    if text in ("-", "switch"):
        return "" if text == "-" else False
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


_MEASURING = _flags("""
iter i 10
verify V 1
time t 0
wall w 0
""")
_IMAGE = """
batchsize n 100
in_channels c 3
in_h H 32
in_w W 32
"""

_CONV = Command(
    _flags(f"""{_IMAGE}
in_layout I -
out_layout O -
fil_layout f -
spatial_dim _ 2
forw F 0
in_d ! 32
out_channels k 32
fil_d @ 3
fil_h y 3
fil_w x 3
conv_stride_d # 1
conv_stride_h u 1
conv_stride_w v 1
pad_d $ 0
pad_h p 0
pad_w q 0
pad_val r 0
trans_output_pad_d % 0
trans_output_pad_h Y 0
trans_output_pad_w X 0
bias b 0
mode m conv
pad_mode z default
tensor_vect Z 0
vector_length L 1
dilation_d ^ 1
dilation_h l 1
dilation_w j 1
group_count g 1
in_cast_type U -1
out_cast_type T -1
wei_cast_type R -1
fp16 - switch
bf16 - switch
"""),
    {**_MEASURING, **_flags("""
verification_cache C -
search s 0
printconv P 1
dump_output o 0
in_data d -
weights e -
in_bias a -
dout_data D -
solution S -1
gpualloc G 0
""")},
    ("", "fp16", "bfp16", "int8"),
)  # fmt: skip

COMMANDS: dict[str, Command] = {
    "conv": _CONV,
    "bnorm": Command(
        _flags(f"""{_IMAGE}
forw F 0
back b 0
in_d D 0
layout L -
alpha A 1.0
beta B 0.0
mode m 0
save s 0
run r 0
"""),
        {**_MEASURING, **_flags("printconv P 1")},
        ("", "fp16", "fp16fp32", "bfp16fp32"),
    ),
    "pool": Command(
        _flags("""
input W 100x3x32x32
dinput D -
output O -
in_h H 32
in_w - 0
batchsize n 100
in_channels c 3
forw F 0
win_d Z 3
win_h y 3
win_w x 3
pool_stride_d s 1
pool_stride_h v 1
pool_stride_w u 1
pad_d o 0
pad_h p 0
pad_w q 0
pad_val r 0
mode m max
pad_mode z default
"""),
        {
            **_MEASURING,
            **_flags("""
index_position M 0
print P 1
index_type I miopenIndexUint8
in_data j -
out_data k -
dump_root l -
"""),
        },
        ("", "fp16"),
    ),
    "softmax": Command(
        _flags(f"{_IMAGE}forw F 0\nalpha A 1.0\nbeta B 0.0\nalgorithm a 1\nmode m 1"),
        _MEASURING,
        ("", "fp16"),
    ),
    "activ": Command(
        _flags(f"{_IMAGE}forw F 0\nmode m 3\nalpha A 1.0\nbeta B 1.0\ngamma G 1.0"),
        _MEASURING,
        ("", "fp16"),
    ),
    "gemm": Command(
        _flags("""
forw F 1
batch_count b 1
isColMajor C 0
a_h m 256
a_w k 256
b_w n 256
alpha A 1.0
beta B 0.0
transA u 0
transB v 0
"""),
        _MEASURING,
        ("", "fp16"),
    ),
    "layernorm": Command(
        _flags("""
input X 100x3x32x32
forw F 1
eps e 0.00001
normalized_dim o 3
mode m 0
type t -
layout l -
elementwise_affine - switch
"""),
        {**_MEASURING, "time": ("", 0)},
        ("", "fp16", "bfp16"),
    ),
    "reduce": Command(
        _flags("""
forw F 1
DimLengths D 100,60,16,240
DimsToReduce R 0,2
ReduceOp O 0
CompType C 1
NanPropagation N 0
IndicesUsed I 0
alpha A 1.0
beta B 0.0
"""),
        {**_MEASURING, **_flags("dump_output o 0\nin_data d -")},
        ("", "fp16", "fp64"),
    ),
    "matmul": Command(
        _flags("""
m M 0
n N 0
k K 0
b B 1
a_type - f32
b_type - f32
out_type - f32
bias_type - f32
transA - switch
transB - switch
bias - switch
"""),
        {},
    ),
    "sdpa": Command(
        _flags("""
batch B 1
heads_q - 8
heads_kv - 8
seq_q - 64
seq_kv - 64
head_dim d 64
type t f16
scale s -
dropout p 0.0
mask - switch
causal - switch
gqa - switch
"""),
        {},
    ),
}
"""By name; the long names of pool's and convolution's flags are MIOpen's of today."""

_BEFORE = _flags("iter i 10\ndevice D 0\ndump d switch\nXiree-compile - -")


def is_line(text: str) -> bool:
    """Whether a text is a line of a driver, right or wrong, and not the name of a file."""
    words = text.split()
    return any(_PROGRAMS.match(word) for word in words) or (
        len(words) > 1 and (_command(words[0]) is not None or any(w[0] == "-" for w in words))
    )


def _command(word: str) -> tuple[str, str] | None:
    """Return the command and the element type of a word such as ``convfp16``."""
    for name, command in COMMANDS.items():
        for ending in command.types:
            if word == name + ending:
                return name, _TYPES[ending]
    return None


def parse(text: str) -> Line:
    """Read a line; what is wrong is in its ``problems``."""
    line = Line(" ".join(text.split()))
    try:
        words = shlex.split(text)
    except ValueError as error:
        line.add("DRIVER-01", "", str(error), "words and quotes that end")
        return line
    starts = [at for at, word in enumerate(words) if _PROGRAMS.match(word)]
    words = words[starts[-1] + 1 :] if starts else words
    words = _read(line, _BEFORE, {}, words, until=True)
    found = _command(words[0]) if words else None
    if found is None:
        known = [name + ending for name, one in COMMANDS.items() for ending in one.types]
        word = words[0] if words else ""
        line.add("DRIVER-01", "", word, f"one of {', '.join(known)}", nearest(word, known))
        return line
    line.command, line.dtype = found
    command = COMMANDS[line.command]
    line.given = {name: default for name, (_, default) in command.flags.items()}
    _read(line, command.flags, command.measuring, words[1:])
    return line


def _read(
    line: Line,
    flags: Mapping[str, tuple[str, Value]],
    measuring: Mapping[str, tuple[str, Value]],
    words: Sequence[str],
    *,
    until: bool = False,
) -> list[str]:
    """Read flags into a line, up to the first other word where ``until``; return what is left."""
    known = {**measuring, **flags}
    names = {f"--{long}": long for long in known}
    names |= {f"-{short}": long for long, (short, _) in known.items() if short}
    rest = list(words)
    while rest and (rest[0].startswith("-") or not until):
        word = rest.pop(0)
        flag, equals, value = word.partition("=")
        if flag not in names:
            wanted = f"one of {', '.join(names)}"
            line.add("DRIVER-02", flag, "an unknown flag", wanted, nearest(flag, list(names)))
            if rest and not rest[0].startswith("-") and not until:
                rest.pop(0)  # its value
            continue
        name = names[flag]
        default = known[name][1]
        if default is False or (name == "bias" and not (rest and rest[0].isdigit())):
            given: Any = True
        elif equals or rest:
            given = _typed(line, flag, value if equals else rest.pop(0), default)
        else:
            line.add("DRIVER-02", flag, "nothing", "a value")
            continue
        if name in flags:
            line.given[name] = given
    return rest


def _typed(line: Line, flag: str, text: str, default: Value) -> Any:
    if isinstance(default, str):
        return text
    try:
        return type(default)(text)
    except ValueError:
        kind = "an integer" if isinstance(default, int) else "a number"
        line.add("DRIVER-02", flag, text, kind)
        return default
