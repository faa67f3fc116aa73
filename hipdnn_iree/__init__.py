"""hipdnn-iree: operation graphs in hipDNN's terms, compiled by IREE.

The code lives in the root folders ``graph_api``, ``jit``, ``provider``, ``hipdnn_plugin`` and
``emulation``, and is imported as ``hipdnn_iree.graph_api`` and so on (docs/architecture.md says
why).  This module re-exports what a script needs; every name is imported on first use, so that
describing a graph loads neither NumPy nor IREE nor torch-mlir.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"


def _from_checkout() -> None:
    """Let ``hipdnn_iree.jit`` be found as ``jit/`` in a checkout, installed editable or not."""
    from os import path  # pathlib would take a third of the time of this import

    root = path.dirname(path.dirname(path.realpath(__file__)))
    if path.isfile(path.join(root, "pyproject.toml")) and path.isdir(path.join(root, "graph_api")):
        __path__[:] = [root, path.join(root, "hipdnn_iree")]


_from_checkout()

if TYPE_CHECKING:
    from .graph_api.dtypes import DataType as DataType
    from .graph_api.enums import ConvMode as ConvMode
    from .graph_api.enums import PointwiseMode as PointwiseMode
    from .graph_api.enums import ReductionMode as ReductionMode
    from .graph_api.errors import HipdnnIreeError as HipdnnIreeError
    from .graph_api.tensor import Tensor as Tensor
    from .jit.target import Target as Target
    from .provider.artifacts.artifact import load_artifact as load_artifact
    from .provider.artifacts.save import save_artifact as save_artifact
    from .provider.graph import Graph as Graph
    from .provider.graph_files import load as load
    from .provider.precompile import precompile as precompile

_EXPORTS = {
    "ConvMode": "graph_api.enums",
    "DataType": "graph_api.dtypes",
    "Graph": "provider.graph",
    "HipdnnIreeError": "graph_api.errors",
    "PointwiseMode": "graph_api.enums",
    "ReductionMode": "graph_api.enums",
    "Target": "jit.target",
    "Tensor": "graph_api.tensor",
    "load": "provider.graph_files",
    "load_artifact": "provider.artifacts.artifact",
    "precompile": "provider.precompile",
    "save_artifact": "provider.artifacts.save",
}
__all__ = [
    "ConvMode",
    "DataType",
    "Graph",
    "HipdnnIreeError",
    "PointwiseMode",
    "ReductionMode",
    "Target",
    "Tensor",
    "__version__",
    "load",
    "load_artifact",
    "precompile",
    "save_artifact",
]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(f".{_EXPORTS[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
