# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The forms of what commands print with ``--json``, one class for each, as msgspec reads them.

Tests hold all output against them, and ``scripts/gen_docs`` makes the JSON Schemas of them
(docs/reference/json/).  What a key means stands in the table ``JSON`` of the command's module.
Nothing imports this package when a command runs.
"""

from __future__ import annotations

from . import graphs, installation, runs
from .shared import Failure, Form

__all__ = ["FORMS", "Failure", "Form"]

FORMS: dict[str, tuple[type[Form], ...]] = {
    "run": (graphs.Run,),
    "bench": (runs.Bench,),
    "sweep": (runs.Sweep, runs.SweepList),
    "sweep export": (runs.SweepExport,),
    "sweep regret": (runs.SweepRegret,),
    "fuzz": (runs.Sweep,),
    "compile": (graphs.Compile,),
    "artifact create": (graphs.Artifact,),
    "artifact show": (graphs.Artifact,),
    "artifact verify": (graphs.ArtifactVerify,),
    "inspect": (graphs.Inspect,),
    "explain": (graphs.Explain,),
    "tune": (runs.Tune,),
    "report": (runs.Report,),
    "repro": (runs.Repro,),
    "reduce": (runs.Reduce,),
    "show": (graphs.ShowPlan, graphs.ShowModule),
    "opt": (graphs.Opt,),
    "onnx-to-torch": (graphs.OnnxToTorch,),
    "engines": (installation.Engines,),
    "ops": (installation.Ops,),
    "targets": (installation.Targets,),
    "cache info": (installation.CacheInfo,),
    "cache clear": (installation.CacheRemoved,),
    "cache trim": (installation.CacheRemoved,),
    "cache verify": (installation.CacheVerify,),
    "plugin path": (installation.PluginPath,),
    "plugin install": (installation.LibraryInstall,),
    "plugin doctor": (installation.PluginDoctor,),
    "onnx model": (graphs.OnnxModel,),
    "onnx path": (installation.LibraryPath,),
    "onnx install": (installation.LibraryInstall,),
    "doctor": (installation.Doctor,),
    "env": (installation.Env,),
    "completion": (installation.Completion,),
}
"""By command, what it prints when it has not failed as a whole; one of several for some.

``show`` prints a graph as hipDNN's own graph JSON (docs/graph-json.md), which is in none of them.
"""
