# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Objects that speak DLPack, as arrays of other libraries do."""

from __future__ import annotations

from typing import Any


class Exporter:
    """An object that speaks DLPack 1.0 and nothing else."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class OldExporter(Exporter):
    """One that knows the protocol before version 1.0, as older libraries do."""

    def __dlpack__(self) -> Any:  # type: ignore[override]
        return self.array.__dlpack__()
