# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cache's key follows every module that decides what IR a graph becomes."""

from __future__ import annotations

from pathlib import Path

from hipdnn_iree.jit.pipeline import lowering_sources

from tests.contract.test_cycles import imported

ELSEWHERE = {
    "child_process": "runs the compiler, whose version is in the key",
    "compiler": "flags and version are in the key",
    "options": "their values are in the key",
    "settings_kinds": "how the text of a setting is read",
    "target": "its text is in the key",
    "tuning": "the digest of the tuning file is in the key",
}


def test_the_digest_covers_what_lowerings_import(modules: dict[str, Path]) -> None:
    covered = {Path(path).resolve() for path in lowering_sources()}
    found = {name for name, path in modules.items() if path.resolve() in covered}
    queue = list(found)
    assert found
    while queue:
        name = queue.pop()
        for other, _ in imported(name, modules[name], modules):
            part = other.removeprefix("hipdnn_iree.jit").lstrip(".").partition(".")[0]
            if part in ELSEWHERE or other in found or other == "hipdnn_iree.jit":
                continue
            found.add(other)
            queue.append(other)
    missing = sorted(name for name in found if modules[name].resolve() not in covered)
    assert not missing, missing
