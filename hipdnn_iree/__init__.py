# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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
    from . import errors as errors
    from .graph_api.dtypes import DataType as DataType
    from .graph_api.dynamic_dim import DynamicDim as DynamicDim
    from .graph_api.enums import AttentionImplementation as AttentionImplementation
    from .graph_api.enums import ConvMode as ConvMode
    from .graph_api.enums import DiagonalAlignment as DiagonalAlignment
    from .graph_api.enums import MoeGroupedMatmulMode as MoeGroupedMatmulMode
    from .graph_api.enums import NormFwdPhase as NormFwdPhase
    from .graph_api.enums import PaddingMode as PaddingMode
    from .graph_api.enums import PointwiseMode as PointwiseMode
    from .graph_api.enums import ReductionMode as ReductionMode
    from .graph_api.enums import ResampleMode as ResampleMode
    from .graph_api.enums import ResizeCoordinates as ResizeCoordinates
    from .graph_api.errors import ArtifactError as ArtifactError
    from .graph_api.errors import BindError as BindError
    from .graph_api.errors import CompileError as CompileError
    from .graph_api.errors import Decline as Decline
    from .graph_api.errors import DeviceError as DeviceError
    from .graph_api.errors import FormatError as FormatError
    from .graph_api.errors import GraphError as GraphError
    from .graph_api.errors import HipdnnIreeError as HipdnnIreeError
    from .graph_api.errors import NotPrecompiledError as NotPrecompiledError
    from .graph_api.errors import NotSupportedError as NotSupportedError
    from .graph_api.errors import Problem as Problem
    from .graph_api.errors import SettingError as SettingError
    from .graph_api.frozen import FrozenGraph as FrozenGraph
    from .graph_api.tensor import Tensor as Tensor
    from .jit.target import Target as Target
    from .jit.trace import trace as trace
    from .provider.artifacts.artifact import load_artifact as load_artifact
    from .provider.artifacts.save import save_artifact as save_artifact
    from .provider.graph import Graph as Graph
    from .provider.graph_files import load as load
    from .provider.plan import Plan as Plan
    from .provider.precompile import precompile as precompile
    from .provider.results import Results as Results
    from .provider.selection.candidate import Candidate as Candidate
    from .provider.verify import Report as Report

_EXPORTS = {
    "ArtifactError": "graph_api.errors",
    "AttentionImplementation": "graph_api.enums",
    "BindError": "graph_api.errors",
    "Candidate": "provider.selection.candidate",
    "CompileError": "graph_api.errors",
    "ConvMode": "graph_api.enums",
    "DataType": "graph_api.dtypes",
    "Decline": "graph_api.errors",
    "DeviceError": "graph_api.errors",
    "DiagonalAlignment": "graph_api.enums",
    "DynamicDim": "graph_api.dynamic_dim",
    "FormatError": "graph_api.errors",
    "FrozenGraph": "graph_api.frozen",
    "Graph": "provider.graph",
    "GraphError": "graph_api.errors",
    "HipdnnIreeError": "graph_api.errors",
    "MoeGroupedMatmulMode": "graph_api.enums",
    "NormFwdPhase": "graph_api.enums",
    "NotPrecompiledError": "graph_api.errors",
    "NotSupportedError": "graph_api.errors",
    "PaddingMode": "graph_api.enums",
    "Plan": "provider.plan",
    "PointwiseMode": "graph_api.enums",
    "Problem": "graph_api.errors",
    "ReductionMode": "graph_api.enums",
    "Report": "provider.verify",
    "ResampleMode": "graph_api.enums",
    "ResizeCoordinates": "graph_api.enums",
    "Results": "provider.results",
    "SettingError": "graph_api.errors",
    "Target": "jit.target",
    "Tensor": "graph_api.tensor",
    "load": "provider.graph_files",
    "load_artifact": "provider.artifacts.artifact",
    "precompile": "provider.precompile",
    "save_artifact": "provider.artifacts.save",
    "trace": "jit.trace",
}
__all__ = [
    "ArtifactError",
    "AttentionImplementation",
    "BindError",
    "Candidate",
    "CompileError",
    "ConvMode",
    "DataType",
    "Decline",
    "DeviceError",
    "DiagonalAlignment",
    "DynamicDim",
    "FormatError",
    "FrozenGraph",
    "Graph",
    "GraphError",
    "HipdnnIreeError",
    "MoeGroupedMatmulMode",
    "NormFwdPhase",
    "NotPrecompiledError",
    "NotSupportedError",
    "PaddingMode",
    "Plan",
    "PointwiseMode",
    "Problem",
    "ReductionMode",
    "Report",
    "ResampleMode",
    "ResizeCoordinates",
    "Results",
    "SettingError",
    "Target",
    "Tensor",
    "__version__",
    "load",
    "load_artifact",
    "precompile",
    "save_artifact",
    "trace",
]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(f".{_EXPORTS[name]}", __name__), name)
    if name == "errors":
        return import_module(".errors", __name__)
    from difflib import get_close_matches

    near = get_close_matches(name, __all__, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted(__all__)
