# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An op has one home per layer, found by its name, and no other module names it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hipdnn_iree.graph_api.ops import FAMILIES, OPS

MOST_HOMES = 7

# Folders of modules named as ops, and whether an op must have one there.
FOLDERS = {
    "graph_api/ops": True,
    "jit/ops": True,
    "jit/lowering": True,
    "provider/reference": True,
    "provider/engines/torch": False,  # where PyTorch serves the op
}

# Words of NumPy, PyTorch and MLIR, too: as identifiers they are no names of ops.
WORDS = {"concatenate", "matmul", "pad", "pointwise", "reduction", "reshape", "slice", "transpose"}

# Modules that name ops, with the ops (all where there is "*") and the reason.
EXCEPTIONS = {
    "graph_api/ops/__init__.py": ("*", "the list"),
    "graph_api/op_methods.py": ("*", "made from the list; static types need names"),
    "graph_api/formats/flatbuffer/inv_variance.py": (
        "batchnorm_inference batchnorm_inference_variance_ext",
        "a field of one became the other's between hipDNN's eras",
    ),
    "graph_api/formats/meanings.py": (
        "batchnorm_inference pointwise resample_fwd",
        "what files leave open in them, settings say",
    ),
    "graph_api/ops/block_scale_quantize.py": ("transpose", "hipDNN's parameter of that name"),
    "jit/node_context.py": ("pointwise", "what the compiler fuses with anything"),
    "jit/runtime/binding_rules.py": ("transpose", "NumPy's method of that name"),
    "jit/ops/sdpa.py": ("conv_fprop matmul", "its rule asks for other matmuls in the graph"),
    "provider/offload/aten/attention.py": ("sdpa", "what an aten op becomes"),
    "provider/offload/aten/conv.py": ("conv_dgrad conv_fprop", "what aten ops become"),
    "provider/offload/aten/gradients.py": ("conv_dgrad conv_wgrad", "what an aten op becomes"),
    "provider/offload/aten/movement.py": ("custom_op pad", "what aten ops become, and say"),
    "provider/offload/aten/rows.py": (
        "batchnorm_inference_variance_ext cumsum layernorm rmsnorm",
        "what aten ops become",
    ),
    "provider/offload/aten/windows.py": ("resample_bwd resample_fwd", "what aten ops become"),
    "provider/offload/pipeline.py": ("custom_op", "what ops become that are in no region"),
    "provider/onnx/claims.py": ("pad reshape slice transpose", "ONNX's ops of these names"),
    "provider/onnx/expand_operands.py": ("slice", "ONNX's op of this name"),
    "provider/onnx/node_writer.py": ("reshape slice transpose", "methods that write ONNX's ops"),
    "provider/sweep/contestants.py": ("batchnorm", "a knob of the torch engine"),
    "provider/sweep/driver_flags.py": (
        "layernorm matmul sdpa",
        "commands of other drivers",
    ),
    "provider/sweep/drivers.py": (
        "batchnorm batchnorm_backward batchnorm_inference_variance_ext conv_dgrad conv_fprop"
        " conv_wgrad layernorm matmul pad pointwise reduction resample_bwd resample_fwd sdpa"
        " transpose",
        "what lines of other drivers become, and their words",
    ),
    "provider/sweep/fuzz/forms.py": (
        "batchnorm_inference_variance_ext",
        "a format of hipDNN's that does not hold its epsilon",
    ),
    "provider/sweep/fuzz/random_ops.py": ("*", "random graphs are made of all ops"),
    "provider/torch_import.py": ("custom_op", "what it makes of a function"),
}

# Modules that still name ops; the list only gets shorter.
PENDING = {
    "provider/selection/cost.py",
}

# What a defect of the compiler is about may be any ops.
WORKAROUNDS = "jit/workarounds/"


def camel(op: str) -> str:
    return "".join(map(str.title, op.split("_")))


CLASSES = {camel(op): op for op in OPS}


def homes(op: str, checkout: Path) -> list[Path]:
    """Return the files that make an op."""
    family = FAMILIES[op]
    found = [checkout / folder / f"{op}.py" for folder in FOLDERS if folder != "jit/lowering"]
    found.append(checkout / "jit" / "lowering" / family / f"{op}.py")
    found.append(checkout / "tests" / "ops" / f"test_{op}.py")
    found.append(checkout / "suites" / "ops" / f"{op}.yaml")
    return [path for path in found if path.is_file()]


def words(tree: ast.AST) -> Iterator[tuple[str, bool, int]]:
    """Yield the identifiers and strings of a module: word, is it an identifier, line."""
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Name(id=word) | ast.Attribute(attr=word):
                yield word, True, line
            case ast.FunctionDef(name=word) | ast.ClassDef(name=word) | ast.arg(arg=word):
                yield word, True, line
            case ast.keyword(arg=str(word)):
                yield word, True, line
            case ast.ImportFrom(module=module, names=names):
                # Modules are named as ops without doubt, whatever the word.
                yield from ((word, False, line) for word in (module or "").split("."))
                package = (module or "").rpartition(".")[2] in ("", "ops")
                yield from ((alias.name, not package, line) for alias in names)
                yield from ((alias.asname, True, line) for alias in names if alias.asname)
            case ast.Import(names=names):
                yield from ((w, False, line) for a in names for w in a.name.split("."))
            case ast.Constant(value=str(text)) if id(node) not in documents:
                # "matmul", and "matmul.strategy" or "matmul=plain"
                first = re.split("[.=]", text, maxsplit=1)[0]
                yield first, False, line


def named(tree: ast.AST) -> dict[str, int]:
    """Return the ops that a module names, each with a line."""
    found: dict[str, int] = {}
    for word, identifier, line in words(tree):
        op = CLASSES.get(word) or (word if word in OPS else "")
        if op and not (identifier and word in WORDS):
            found.setdefault(op, line)
    return found


def allowed(path: str, found: dict[str, int]) -> set[str]:
    """Return the ops that a module of an ops' folder may name: those of one family.

    A home may name its op's family; another module in the folder is shared by one family.
    """
    folder, _, name = path.rpartition("/")
    stem = name.removesuffix(".py")
    if not any(folder == known or folder.startswith(f"{known}/") for known in FOLDERS):
        return set()
    if stem in OPS:
        return {stem, *relatives(stem)}
    families = {FAMILIES[op] or op for op in found}
    return set(found) if len(families) == 1 else set()


def relatives(op: str) -> set[str]:
    family = FAMILIES[op]
    return {other for other, own in FAMILIES.items() if family and own == family}


def strangers(checkout: Path) -> dict[str, dict[str, int]]:
    """Return the modules that name ops they should not, exceptions included."""
    found = {}
    for package in ("graph_api", "jit", "provider", "hipdnn_plugin", "emulation"):
        for file in sorted((checkout / package).rglob("*.py")):
            path = file.relative_to(checkout).as_posix()
            here = named(ast.parse(file.read_text(encoding="utf-8")))
            wrong = {op: line for op, line in here.items() if op not in allowed(path, here)}
            if wrong and not path.startswith(WORKAROUNDS):
                found[path] = wrong
    return found


@pytest.fixture(scope="module")
def outside(checkout: Path) -> dict[str, dict[str, int]]:
    return strangers(checkout)


@pytest.mark.parametrize("op", OPS)
def test_an_op_has_its_homes(op: str, checkout: Path) -> None:
    found = {path.relative_to(checkout).as_posix() for path in homes(op, checkout)}
    for folder, needed in FOLDERS.items():
        at = f"{folder}/{FAMILIES[op]}/" if folder == "jit/lowering" else f"{folder}/"
        path = f"{at.replace('//', '/')}{op}.py"
        assert path in found or not needed, f"{path} is missing"
    assert {f"tests/ops/test_{op}.py", f"suites/ops/{op}.yaml"} <= found
    assert len(found) <= MOST_HOMES
    everywhere = {
        path.relative_to(checkout).as_posix()
        for folder in ("graph_api", "jit", "provider", "hipdnn_plugin", "tests/ops", "suites")
        for path in (checkout / folder).rglob("*.*")
        if path.stem in (op, f"test_{op}") and path.suffix in (".py", ".yaml")
    }
    assert everywhere == found


def test_the_page_shows_all_files_of_an_op(checkout: Path) -> None:
    text = (checkout / "docs" / "add-an-op.md").read_text(encoding="utf-8")
    told = text.partition("```text\n")[2].partition("```")[0]
    files = {line.split()[0] for line in told.splitlines()}
    own = {path.relative_to(checkout).as_posix() for path in homes("cumsum", checkout)}
    shared = {file for file in files if not file.startswith("docs/reference/")} - own
    assert own <= files
    assert shared == {"graph_api/ops/__init__.py", "graph_api/op_methods.py"}


def test_no_other_module_names_an_op(outside: dict[str, dict[str, int]]) -> None:
    wrong = []
    for path, found in outside.items():
        ops, _ = EXCEPTIONS.get(path, ("", ""))
        wrong += [
            f"{path}:{line}: {op}"
            for op, line in found.items()
            if ops != "*" and op not in ops.split()
        ]
    assert not wrong, "\n".join(wrong)


def test_the_lists_hold_nothing_else(outside: dict[str, dict[str, int]]) -> None:
    assert set(EXCEPTIONS) <= set(outside), "an exception is not needed any more"
    for path, (ops, reason) in EXCEPTIONS.items():
        assert reason
        assert ops == "*" or set(ops.split()) == set(outside[path]), path


@pytest.mark.parametrize(
    "planted",
    [
        'x = "conv_fprop"',
        'TABLE = {"matmul": 1}',
        'x = "sdpa.strategy"',
        "y = graph.conv_dgrad(x)",
        "from ..graph_api.ops.pad import pad",
        "from .ops import matmul",
        "assert isinstance(op, Slice)",
        "def rmsnorm(): pass",
        "f(sdpa=1)",
    ],
)
def test_a_name_is_found_wherever_it_stands(planted: str, tmp_path: Path) -> None:
    path = tmp_path / "provider" / "planted.py"
    path.parent.mkdir()
    path.write_text(planted, encoding="utf-8")
    assert strangers(tmp_path)


def test_words_and_documentation_are_no_names(tmp_path: Path) -> None:
    path = tmp_path / "provider" / "plain.py"
    path.parent.mkdir()
    text = '"""A conv_fprop."""\n\n\ndef f(x):\n    "matmul"\n    return x.reshape(2).transpose()\n'
    path.write_text(text, encoding="utf-8")
    assert not strangers(tmp_path)
