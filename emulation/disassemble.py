# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``python -m hipdnn_iree.emulation.disassemble FILE``: the kernels in a file, as text.

FILE is a code object, or anything that holds some uncompressed, such as a module of IREE's
(.vmfb).  Exit status 1 when there is none, or one that cannot be read.
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from .decode import decode
from .elf import CodeObject, Kernel, code_objects, read_code_object
from .errors import CodeObjectError, EmulationError
from .text import instruction_text

__all__ = ["kernel_lines", "main"]

_WORD = struct.Struct("<I")


def kernel_lines(code_object: CodeObject, kernel: Kernel) -> Iterator[str]:
    """Yield a kernel's instructions as lines of text, each with its address and bytes.

    Raises
    ------
    DecodeError
    """
    code = code_object.code(kernel)
    found = decode(code, arch=code_object.arch, address=kernel.entry, kernel=kernel.name)
    for one in found:
        at = one.address - kernel.entry
        words = " ".join(f"{word:08x}" for (word,) in _WORD.iter_unpack(code[at : at + one.size]))
        yield f"  {one.address:06x}  {instruction_text(one, code_object.arch):<60}  // {words}"


def main(words: list[str] | None = None) -> int:
    """Print what the command line asks for; return the exit status."""
    parser = argparse.ArgumentParser(prog="disassemble", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--kernel", default="", help="only kernels with this in their name")
    args = parser.parse_args(words)
    try:
        found = list(code_objects(args.file.read_bytes()))
        if not found:
            raise CodeObjectError(f"{args.file} holds no code object of an AMD GPU")
        for data in found:
            code_object = read_code_object(data)
            for kernel in code_object.kernels.values():
                if args.kernel in kernel.name:
                    print(f"{kernel.name}: {code_object.arch}, {kernel.size} bytes")
                    print("\n".join(kernel_lines(code_object, kernel)))
    except (EmulationError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
