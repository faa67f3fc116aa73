# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files that commands read and write; whatever is wrong with one is a `FormatError`.

Graph files are read in one place, `read_graph`, for all commands.  Arrays come and go as ``.npz``
files, keyed by tensor name or uid.  NumPy knows no bfloat16, no fp8 and nothing below: in a file an
element of these types is raw bytes (``|V2``, ``|V1``), taken back as what the tensor says.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...graph_api.errors import BindError, FormatError, Problem
from ...graph_api.files import write_file

if TYPE_CHECKING:
    from zipfile import ZipFile

    from ...graph_api.frozen import FrozenGraph
    from ...graph_api.tensor import TensorSpec
    from ...jit.mlir_source import MlirSource
    from ..artifacts.artifact import Artifact
    from ..graph import Graph

__all__ = [
    "NO_FILE",
    "RULES",
    "as_file_error",
    "file_errors",
    "read_arrays",
    "read_bytes",
    "read_file",
    "read_graph",
    "read_inputs",
    "read_source",
    "write",
    "write_arrays",
    "write_outputs",
    "write_page",
]

NO_FILE = "FILE-01"
_LARGEST = 1 << 32
_ARRAY = b"\x93NUMPY"  # what an .npy file begins with

RULES: dict[str, str] = {
    "FILE-01": "a file that is named can be read or written",
    "FILE-02": "a file of inputs is an .npz archive without pickled objects",
    "FILE-03": "a graph file or an artifact has at most 4 GiB",
    "FILE-04": "only the commands compile, run and show take an MLIR file",
    "INPUT-01": "a file of inputs has an array for every input, by name or uid",
    "INPUT-02": "every array of it belongs to a tensor of the graph",
    "INPUT-03": "an array has the dims of its tensor",
    "INPUT-04": "an array has the data type of its tensor",
}


@contextmanager
def file_errors(path: str | Path, verb: str = "read") -> Iterator[None]:
    """Turn an ``OSError`` into a `FormatError` that names the file."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _refused(error, str(path), verb) from None
    except ValueError as error:  # a null character in the name
        if "null" not in str(error):
            raise
        problem = Problem(rule=NO_FILE, got=repr(str(path)), wanted="the name of a file")
        text = f"cannot {verb} {str(path)!r}: not the name of a file [{NO_FILE}]"
        raise FormatError(text, [problem]) from None


def _refused(error: OSError, path: str, verb: str) -> FormatError:
    near = _nearest(path) if isinstance(error, FileNotFoundError) and verb == "read" else ""
    hint = f"did you mean {near}?" if near else ""
    got = error.strerror or str(error)
    problem = Problem(
        rule=NO_FILE,
        port=path,
        got=got,
        wanted=f"a file that can be {'read' if verb == 'read' else 'written'}",
        hint=hint,
    )
    why = _PLAIN.get(type(error), got[:1].lower() + got[1:])
    if isinstance(error, FileNotFoundError) and verb != "read":
        why = f"there is no folder {os.path.dirname(path) or '.'}"
    text = f"cannot {verb} {path}: {why} [{NO_FILE}]"
    return FormatError(f"{text}; {hint}" if hint else text, [problem])


_PLAIN: dict[type[OSError], str] = {
    FileNotFoundError: "no such file",
    IsADirectoryError: "it is a folder",
    NotADirectoryError: "a part of its path is a file, not a folder",
    PermissionError: "permission denied",
}


def _nearest(path: str) -> str:
    """Return the file that is most like one that is not there, or nothing."""
    from difflib import get_close_matches

    folder, name = os.path.split(path)
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return ""
    return "".join(os.path.join(folder, near) for near in get_close_matches(name, names, 1))


def as_file_error(error: OSError) -> FormatError:
    """Return what is said of an ``OSError`` that nobody has explained."""
    if not isinstance(error.filename, str | bytes):
        return FormatError(error.strerror or str(error))
    verb = "read" if isinstance(error, FileNotFoundError | IsADirectoryError) else "use"
    return _refused(error, os.fsdecode(error.filename), verb)


def read_graph(path: str) -> Graph:
    """Read a graph file of any kind that is known, or the graph of an artifact; ``-`` is stdin.

    Raises
    ------
    FormatError
        If it cannot be read, or is not a graph; with all problems found.
    ArtifactError
        If it is a damaged artifact.
    """
    return read_file(path)[0]


def read_file(path: str) -> tuple[Graph, Artifact | None]:
    """Read a graph file, or an artifact: its graph and itself; errors as for `read_graph`."""
    return _parsed(path, read_bytes(path))


def read_source(path: str, form: str = "") -> tuple[Graph | MlirSource, Artifact | None]:
    """Read a file that code can be made of: what `read_file` takes, or an MLIR module.

    ``form`` is what the file must be (``"graph"``, or one of ``mlir_source.FORMS``), or empty.

    Raises
    ------
    FormatError
        If it cannot be read, or is neither; with all problems found.
    CompileError
        If MLIR's parser breaks down on it.
    """
    from ...jit.mlir_source import MlirSource, is_mlir

    data = read_bytes(path)
    if form == "graph" or not (form or is_mlir(data)):
        return _parsed(path, data)
    from ...jit.compiler.client import default_compiler
    from ...jit.options import WorkerOptions
    from ...jit.settings import settings

    compiler = default_compiler(WorkerOptions.of(settings()))
    return MlirSource.read(data, compiler, name=_label(path), form=form), None


def _label(path: str) -> str:
    return "standard input" if path == "-" else path


def read_bytes(path: str) -> bytes:
    """Return what a file holds; ``-`` is stdin."""
    with file_errors(path):
        _must_be_bearable(path)
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()


def _parsed(path: str, data: bytes) -> tuple[Graph, Artifact | None]:
    from ...jit.mlir_source import is_mlir
    from ..graph_files import is_artifact, loads

    source = _label(path)
    if is_mlir(data):
        problem = Problem(
            rule="FILE-04", port=path, got="an MLIR module", wanted="a graph file or an artifact"
        )
        raise FormatError(f"{source} is not a graph", [problem])
    if is_artifact(data):
        from ..artifacts.artifact import Artifact

        artifact = Artifact(data, source)
        return artifact.graph, artifact
    return loads(data, source=source), None


def _must_be_bearable(path: str) -> None:
    """Raise `FormatError` for a file that is too large, before memory is taken."""
    size = os.stat(path).st_size if path != "-" else 0
    if size > _LARGEST:
        problem = Problem(
            rule="FILE-03", port=path, got=f"{size:,} bytes", wanted=f"at most {_LARGEST:,}"
        )
        raise FormatError(f"{path} is too large for a graph or an artifact", [problem])


def write(path: str | Path, data: bytes) -> None:
    """Write a file as a whole (`graph_api.files.write_file`).

    Raises
    ------
    FormatError
        If it cannot be written.
    """
    with file_errors(path, "write"):
        write_file(path, data)


def write_page(path: str | Path, page: str) -> None:
    """Write a page or a picture, and say so.

    Raises
    ------
    FormatError
        If it cannot be written.
    """
    from .output import talk

    write(path, page.encode("utf-8", "replace"))
    talk(f"wrote {path}")


# ---------------------------------------------------------------------------- arrays


def key_of(graph: FrozenGraph, uid: int) -> str:
    """Return what a tensor is called in an ``.npz`` file: its name, or the uid where unclear."""
    name = graph.tensors[uid].name
    others = [s for u, s in graph.tensors.items() if u != uid and s.name == name]
    plain = name and name.isprintable() and not name.lstrip("-").isdigit()
    return name if plain and not others else str(uid)


def read_inputs(path: str, graph: FrozenGraph) -> dict[int, Any]:
    """Return every input by uid, in the memory layout of its tensor.

    Raises
    ------
    FormatError
        If the file is no ``.npz`` file.
    BindError
        If arrays are missing, too many, or not what the graph wants; with all problems.
    """
    import numpy as np

    from ...jit.pipeline import signature_of
    from ...jit.runtime.arrays import pack, stored
    from ...jit.runtime.elements import is_packed

    arrays: dict[int, Any] = {}
    problems: list[Problem] = []
    with _archive(path) as archive:
        members = {name.removesuffix(".npy"): name for name in archive.namelist()}
        for uid in graph.inputs:
            spec = graph.tensors[uid]
            keys = [key for key in (key_of(graph, uid), str(uid)) if key in members]
            if not keys:
                problems.append(
                    Problem(rule="INPUT-01", port=spec.label, got="no array", wanted=_wanted(spec))
                )
                continue
            arrays[uid], misfits = _fitting(archive, members[keys[0]], spec)
            problems += misfits
    known = {k for uid in graph.tensors for k in (key_of(graph, uid), str(uid))}
    problems += [
        Problem(
            rule="INPUT-02",
            port=key,
            got="an array that no tensor is called",
            wanted="one of " + ", ".join(key_of(graph, uid) for uid in graph.inputs),
        )
        for key in members
        if key not in known
    ]
    if problems:
        raise BindError(f"{path} does not hold the inputs of the graph", problems)
    found = {}
    for uid, arg in zip(graph.inputs, signature_of(graph).args[len(graph.outputs) :], strict=True):
        # Elements below 8 bits stay one a byte, as the reference wants them; plans take both.
        array, dims = arrays[uid], graph.tensors[uid].dims
        packed = is_packed(arg.data_type)
        found[uid] = np.broadcast_to(stored(array, arg), dims) if packed else pack(arg, array)
    return found


def _wanted(spec: TensorSpec) -> str:
    return f"{spec.data_type.json} {list(spec.dims)} under its name or {str(spec.uid)!r}"


@contextmanager
def _archive(path: str) -> Iterator[ZipFile]:
    """Open an ``.npz`` file; what is wrong with it is said of the whole file."""
    from zipfile import ZipFile

    with file_errors(path), open(path, "rb") as file:
        try:
            if file.peek(6)[:6] == _ARRAY:
                raise ValueError("a single array")
            with ZipFile(file) as archive:
                yield archive
        except (OSError, MemoryError):
            raise
        except Exception as error:  # zip, zlib and header parsing have no common base
            problem = Problem(
                rule="FILE-02",
                port=path,
                got=" ".join(str(error).split())[:200] or type(error).__name__,
                wanted="an .npz archive of plain arrays",
                hint="np.savez('x.npz', **{'name of tensor': array})",
            )
            raise FormatError(f"{path} is no .npz file", [problem]) from None


def _header(archive: ZipFile, member: str) -> tuple[tuple[int, ...], Any]:
    """Return the shape and the type of an array of an archive; its data is not read."""
    from numpy.lib import format as npy

    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    with archive.open(member) as file:
        if file.read(6) != _ARRAY:
            raise ValueError(f"{member.removesuffix('.npy')}: bytes, not an array")
        file.seek(0)
        version = npy.read_magic(file)
        if version not in read:
            raise ValueError(f"an array in the format {version}")
        shape, _, dtype = read[version](file)
    if dtype.hasobject:
        raise ValueError("an array of pickled objects")
    return shape, dtype


def _array(archive: ZipFile, member: str) -> Any:
    from numpy.lib import format as npy

    with archive.open(member) as file:
        return npy.read_array(file, allow_pickle=False)


def read_arrays(path: str) -> dict[str, Any]:
    """Return the arrays of an ``.npz`` file by name.

    Raises
    ------
    FormatError
        If it is none, or holds pickled objects.
    """
    with _archive(path) as archive:
        members = {name.removesuffix(".npy"): name for name in archive.namelist()}
        return {
            key: _array(archive, name) for key, name in members.items() if _header(archive, name)
        }


def _fitting(archive: ZipFile, member: str, spec: TensorSpec) -> tuple[Any, list[Problem]]:
    """Return an array seen in its tensor's type, or what is wrong with it.

    A few bytes of an archive can be terabytes of an array: only what fits is unpacked.
    """
    from ..reference import numpy_dtype

    shape, dtype = _header(archive, member)
    wanted = numpy_dtype(spec.data_type)
    bits = dtype.kind == "V" and dtype.itemsize == wanted.itemsize
    stored = tuple(1 if s == 0 else d for d, s in zip(spec.dims, spec.strides, strict=True))
    problems = []
    if shape not in (spec.dims, stored):
        got = f"dims {list(shape)}"
        problems.append(
            Problem(rule="INPUT-03", port=spec.label, got=got, wanted=f"dims {list(spec.dims)}")
        )
    if not bits and dtype != wanted:
        problems.append(
            Problem(
                rule="INPUT-04",
                port=spec.label,
                got=str(dtype),
                wanted=str(wanted),
                hint=f"convert with .astype({str(wanted)!r})",
            )
        )
    if problems:
        return None, problems
    array = _array(archive, member)
    array = array.view(wanted) if bits else array
    if shape != stored and not _constant(array, stored):
        got = "values that differ along a dim with stride 0"
        problems.append(
            Problem(rule="INPUT-03", port=spec.label, got=got, wanted=f"dims {list(stored)}")
        )
    return array, problems


def _constant(array: Any, stored: tuple[int, ...]) -> bool:
    """Whether an array repeats its part of dims ``stored``, to the bit."""
    import numpy as np

    bits = np.ascontiguousarray(array).view(f"V{array.dtype.itemsize}")
    return bool((bits == bits[tuple(slice(0, n) for n in stored)]).all())


def write_outputs(path: str, graph: FrozenGraph, arrays: Mapping[int, Any]) -> str:
    """Write arrays by uid as an ``.npz`` file, under the keys of `key_of`; returns as below.

    Raises
    ------
    FormatError
        If the file cannot be written.
    """
    return write_arrays(path, {key_of(graph, uid): array for uid, array in arrays.items()})


def write_arrays(path: str, arrays: Mapping[str, Any]) -> str:
    """Write arrays by name as an ``.npz`` file; errors as for `write_outputs`.

    Returns
    -------
    str
        That it was written, for people; and how arrays are read whose type the format loses.
    """
    import io
    import zipfile

    import numpy as np

    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:  # np.savez takes no array called "file"
        for name, array in arrays.items():
            one = io.BytesIO()
            np.lib.format.write_array(one, np.ascontiguousarray(array), allow_pickle=False)
            archive.writestr(f"{name}.npy", one.getvalue())
    write(path, whole.getvalue())
    foreign = {name: array.dtype for name, array in arrays.items() if array.dtype.isbuiltin == 2}
    lines = [
        f"{name}: .npz files have no {kind}; read it with .view(ml_dtypes.{kind})"
        for name, kind in foreign.items()
    ]
    return "\n".join([f"wrote {path}", *lines])
