# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The provider of one session: what it claims, and what its groups become."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from ctypes import c_int32, c_int64
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ...graph_api.errors import DeviceError, HipdnnIreeError, NotSupportedError
from ...jit.lru import LruCache
from ...jit.settings_table import Settings
from ...jit.target import Target
from ..offload.finished import Program
from ..offload.kernel import Kernel
from ..offload.memory import FileBytes, GpuMemory, HostMemory, Memory
from ..offload.pipeline import Options
from ..offload.sizes import Programs, sizes_of
from ..plan import Plan
from ..registry import engine
from . import context, stored
from .abi import OrtFunctions
from .claims import Declined
from .context import Code
from .model import Model, Node
from .ort_graph import initializer_bytes, model_folder, value_names
from .partition import Group, Partition, with_code
from .program import made
from .reports import tell
from .session_options import SessionOptions

__all__ = ["DYNAMIC", "STREAMS", "Compiled", "Device", "Session"]

log = logging.getLogger("hipdnn_iree.onnx")

DYNAMIC, STREAMS = 1, 2
"""Flags of a fused node, as of ``native/ep.c``."""

Weights = list[tuple[int, object]]
"""Addresses, and what keeps their memory."""

_Callable = tuple[Callable[[tuple[int, ...]], object], tuple[tuple[int, ...], ...], int]
"""What is called, dims of the outputs, flags."""

_KEPT_SIZES = 32
_INFO, _WARNING = 1, 2


@dataclass(frozen=True, slots=True)
class Device:
    """Where a session runs.

    Attributes
    ----------
    target : Target
    number : int
        HIP's, of a GPU.
    memory : GpuMemory, optional
        Of a GPU that is here.
    virtual : bool
        Whether it only stands for one.
    """

    target: Target
    number: int = 0
    memory: GpuMemory | None = None
    virtual: bool = False

    def metadata(self) -> dict[str, str]:
        """Return what ONNX Runtime shows of it."""
        return {
            "target": str(self.target),
            "device": "virtual" if self.virtual else "hip" if self.memory else "cpu",
        }


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """What a fused node becomes.

    Attributes
    ----------
    call : callable
        Takes the addresses of outputs and inputs, and a stream with the flag ``STREAMS``; with
        ``DYNAMIC`` the kernel's context, the addresses of inputs, and of each input rank and dims.
    inputs : int
    outputs : tuple of tuple of int
        Their dims.
    flags : int
    write_context : callable
        Returns a new node that holds the code.
    """

    call: Callable[[tuple[int, ...]], object]
    inputs: int
    outputs: tuple[tuple[int, ...], ...]
    flags: int
    write_context: Callable[[], int]


@dataclass
class _Claims:
    """What was claimed of a graph, by the outputs of the group."""

    groups: dict[frozenset[str], Group] = field(default_factory=dict)
    contexts: dict[frozenset[str], Node] = field(default_factory=dict)
    error: HipdnnIreeError | None = None


class Session:
    """The provider of one session.

    Parameters
    ----------
    ort : OrtFunctions
    name : str
        The provider's.
    device : Device
    entries : mapping of str to str
        All configuration entries of the session.
    base : Settings
        Of the process.
    logger : int
        ONNX Runtime's.

    Raises
    ------
    SettingError
        For an option that does not exist, or a value that is not allowed.
    DeviceError
        If the device cannot run code for the target.
    """

    def __init__(
        self,
        ort: OrtFunctions,
        name: str,
        device: Device,
        entries: Mapping[str, str],
        base: Settings,
        logger: int,
    ) -> None:
        self.ort, self.name, self.device, self._logger = ort, name, device, logger
        self.options = SessionOptions.read(entries, name)
        self._settings = self.options.settings(base)
        chosen = self.options.target
        self.target = Target.parse(chosen) if chosen else device.target
        if not device.virtual and self.target.is_cpu is not (device.memory is None):
            where = "the CPU" if device.memory is None else "a GPU"
            raise DeviceError(f"target {self.target} is not that of the device, which is {where}")
        number = self.options.device_id
        if number is not None and (device.memory is None or number != device.number):
            own = "none" if device.memory is None else str(device.number)
            raise DeviceError(f"device_id {number} is not that of the session's device: {own}")
        if self.options.engine:
            engine(self.options.engine, self._settings)
        self._offload = Options(
            target=self.target,
            settings=self._settings,
            engine=self.options.engine or None,
            policy=self.options.policy or None,
            holds_weights=False,  # a packed copy beside our own would be a third of each weight
        )
        self._claims = _Claims()
        self._has_groups = False
        self._logged: set[str] = set()

    # ------------------------------------------------------------------ claiming

    def claim(self, model: Model) -> list[list[int]]:
        """Return the handles of the nodes of each group.

        An error that is not about a node is raised when the groups are compiled: ONNX Runtime
        logs one that is raised here, and goes on without the provider.
        """
        handles: list[list[int]] = []
        claims = self._claims
        if self._has_groups and not self.ort.newer:
            # ONNX Runtime 1.23 does not tell bodies from the graph, and gives groups of two of
            # them one name.
            model = replace(model, nested=True)
        rest: list[Node] = []
        ours: list[Node] = []
        for node in model.nodes:
            (ours if context.is_ours(node, self.name) else rest).append(node)
        for node in ours:
            claims.contexts[frozenset(filter(None, node.outputs))] = node
            handles.append([node.handle])
        compiled = tuple(node.label for node in ours)
        if not rest:
            tell(model, Partition((), (), compiled))
            return handles
        try:
            found = stored.partition(
                model,
                self._offload,
                self._settings,
                min_nodes=self.options.min_nodes,
                buckets=self.options.buckets,
            )
        except HipdnnIreeError as error:
            claims.error = error
            return [*handles, [rest[0].handle]]
        if self.options.context is not None:
            found, left = with_code(found, model)
            if left and not found.groups and not claims.contexts:
                text = f"{self.options.context} cannot be written: {self._without_code(left)}"
                claims.error = NotSupportedError(text)
                return [*handles, [rest[0].handle]]
            if left:
                nodes = sum(len(group.model.nodes) for group in left)
                text = f"{self.options.context} is written without {nodes} node{'s' * (nodes > 1)}"
                self._log(_WARNING, f"{text}: {self._without_code(left)}")
        for group in found.groups:
            claims.groups[frozenset(group.model.outputs)] = group
            handles.append([node.handle for node in group.model.nodes])
        self._has_groups = self._has_groups or bool(found.groups)
        declined = tuple(one for one in found.declined if one.node not in compiled)
        self._tell(declined)
        tell(model, replace(found, declined=declined, compiled=compiled))
        return handles

    def _tell(self, declined: tuple[Declined, ...]) -> None:
        level = _WARNING if self.options.log_declined else _INFO
        if self.ort.number(c_int32, "Logger_GetLoggingSeverityLevel", self._logger) > level:
            return
        for one in declined:
            self._log(level, str(one))

    def _log(self, level: int, text: str) -> None:
        """Log a text by ONNX Runtime, once: it asks for the claims of a graph repeatedly."""
        if text in self._logged:
            return
        self._logged.add(text)
        said = text.encode("utf-8", "backslashreplace")
        self.ort("Logger_LogMessage", self._logger, level, said, b"hipdnn_iree", 0, b"claim")

    def _without_code(self, groups: tuple[Group, ...]) -> str:
        """Return why groups have no code that could be written, and what to do."""
        way_out = "SessionOptions.add_free_dimension_override_by_name gives a dim a size"
        if not self.options.buckets:
            way_out = f"the option buckets, such as 1,4,16, rounds sizes up to those; {way_out}"
        return "; ".join([*(group.faults() for group in groups), way_out])

    # ------------------------------------------------------------------ compiling

    def compile(self, graph: int, fused: int) -> Compiled:
        """Return what a fused node becomes.

        Raises
        ------
        HipdnnIreeError
            What went wrong when the groups were made.
        """
        if self._claims.error is not None:
            raise self._claims.error
        inputs = value_names(
            self.ort, self.ort.pointers(fused, "Node_GetNumInputs", "Node_GetInputs")
        )
        outputs = value_names(
            self.ort, self.ort.pointers(fused, "Node_GetNumOutputs", "Node_GetOutputs")
        )
        key = frozenset(filter(None, outputs))
        held = self._claims.contexts.pop(key, None)
        if held is not None:
            code = context.load(held, self.target, model_folder(self.ort, graph))
        else:
            code = self._code(graph, self._claims.groups.pop(key))
        made_by = self._static if isinstance(code.program, Program) else self._dynamic
        call, shapes, flags = made_by(code, self._uploaded(code.weights), inputs, outputs)
        return Compiled(
            call=call,
            inputs=len(inputs),
            outputs=shapes,
            flags=flags,
            write_context=partial(
                context.write, self.ort, self.options, fused, None if held else code
            ),
        )

    def _code(self, graph: int, group: Group) -> Code:
        data = initializer_bytes(self.ort, graph, set(group.model.weights))
        weights = {name: data[name] for name in group.program.weights}
        if not group.is_dynamic:
            return Code(program=group.program, plans=group.plans, weights=weights)
        programs = Programs(lambda at: made(group.model.at(at), self._offload), group.family)
        dims = {name: group.model.values[name].dims or () for name in group.model.inputs}
        return Code(program=programs, dims=dims, weights=weights)

    @property
    def _memory(self) -> Memory:
        return self.device.memory or HostMemory()

    def _uploaded(self, weights: Mapping[str, memoryview | FileBytes]) -> Weights:
        """Return addresses of copies of the weights, which ONNX Runtime then frees."""
        if self.device.virtual:
            return []
        return [self._memory.keep(data) for data in weights.values()]

    def _kernel(self, program: Program, plans: Mapping[str, Plan], weights: Weights) -> Kernel:
        addresses = [address for address, _ in weights]
        return Kernel(program, plans, addresses, self._memory, kept=weights)

    def _static(
        self, code: Code, weights: Weights, inputs: list[str], outputs: list[str]
    ) -> _Callable:
        assert isinstance(code.program, Program)
        program = code.program.ordered(inputs, outputs)
        flags = STREAMS if self.device.memory is not None else 0
        if self.device.virtual:
            return _only_ahead, program.shapes, flags
        return self._kernel(program, code.plans, weights), program.shapes, flags

    def _dynamic(
        self, code: Code, weights: Weights, inputs: list[str], outputs: list[str]
    ) -> _Callable:
        shapes: tuple[tuple[int, ...], ...] = tuple(() for _ in outputs)
        if self.device.virtual:
            return _only_ahead, shapes, DYNAMIC
        return _Dynamic(self, code, weights, inputs, outputs), shapes, DYNAMIC


def _only_ahead(addresses: tuple[int, ...]) -> None:
    raise DeviceError("a virtual device compiles and does not run")


class _Dynamic:
    """A group whose extents are known at execution: a kernel for each set of sizes."""

    def __init__(
        self,
        session: Session,
        code: Code,
        weights: Weights,
        inputs: list[str],
        outputs: list[str],
    ) -> None:
        assert isinstance(code.program, Programs)
        self._session, self._programs, self._weights = session, code.program, weights
        self._inputs, self._outputs = inputs, outputs
        self._kernels: LruCache[_Sized] = LruCache(_KEPT_SIZES)
        self._dims = [code.dims[name] for name in inputs]

    def __call__(self, arguments: tuple[int, ...]) -> None:
        """Run; ``arguments`` are those of `Compiled.call`."""
        ort, context, end = self._session.ort, arguments[0], len(self._inputs) + 1
        shapes = arguments[end:]
        kernel, outputs = self._kernels.get(shapes, lambda: self._made(shapes))
        addresses = []
        for k, (dims, rank) in enumerate(outputs):
            out = ort.pointer("KernelContext_GetOutput", context, k, dims, rank)
            addresses.append(ort.pointer("GetTensorMutableData", out))
        addresses += arguments[1:end]
        if self._session.device.memory is not None:
            addresses.append(ort.pointer("KernelContext_GetGPUComputeStream", context))
        kernel(tuple(addresses))

    def _made(self, shapes: tuple[int, ...]) -> _Sized:
        """Return what runs at the shapes of the inputs: of each one rank and dims."""
        given, left = [], shapes
        for _ in self._inputs:
            given.append(left[1 : 1 + left[0]])
            left = left[1 + left[0] :]
        program, plans = self._programs.at(sizes_of(self._dims, given))
        program = program.ordered(self._inputs, self._outputs)
        outputs = [((c_int64 * max(len(dims), 1))(*dims), len(dims)) for dims in program.shapes]
        return self._session._kernel(program, plans, self._weights), outputs


_Sized = tuple[Kernel, list[tuple[Any, int]]]
"""A kernel, and dims and rank of each output."""
