# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exit status 1 if an output that is written part by part is copied as a whole."""

import json
import sys
import tempfile
from pathlib import Path

from iree.compiler.api import Session, Source

FLAGS = (
    "--iree-hal-target-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=x86-64-v3",
    "--iree-torch-externalize-transients",
    "--iree-scheduling-dump-statistics-format=json",
)

with tempfile.TemporaryDirectory() as folder, Session() as session:
    found = Path(folder, "statistics.json")
    session.set_flags(*FLAGS, f"--iree-scheduling-dump-statistics-file={found}")
    invocation = session.invocation()
    try:
        text = Source.open_file(session, str(Path(__file__).with_name("repro.mlir")))
        if not (invocation.parse_source(text) and invocation.execute()):
            sys.exit(3)
    finally:
        invocation.close()
    copies = json.loads(found.read_text())["stream-aggregate"]["execution"]["copy-count"]
print(f"{copies} copies")
sys.exit(int(copies > 0))
