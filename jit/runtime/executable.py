# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiled code bound to buffers: checked once, then executed within microseconds per call.

`Executable` joins a loaded module with its signature and the graph's uids and names.
`Executable.bind` returns a `BoundPlan`, which keeps its buffers alive and executes at each call.
`Executable.execute`, `execute_async` and `execute_many` bind, execute, and remember what they
bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ...graph_api.errors import ArtifactError, BindError
from ..lru import LruCache
from ..signature import Signature
from .address_calls import AddressCalls, Call
from .arrays import result, span
from .binder import Binder
from .binding_rules import refusal, unknown
from .bound_plan import BoundPlan, Values, run_chain
from .buffer_set import Argument, BufferSet
from .caller_memory import BufferLike, Pointer
from .device import Device
from .loaded_module import LoadedModule
from .pending import Pending

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["BoundPlan", "Executable"]


class Executable:
    """Loaded code with the signature, uids and names of the graph that asked for it.

    Parameters
    ----------
    module : LoadedModule
        The code, on its device.
    signature : Signature
        Its arguments, outputs first.
    uids : sequence of int
        The graph's uid of each argument.
    names : sequence of str, optional
        The graph's name of each argument, for error texts.
    remember : int
        Number of buffer sets that `execute` remembers.
    in_place : iterable of (int, int)
        Outputs and inputs that may be one buffer, by uid (`in_place_pairs`).

    Raises
    ------
    ArtifactError
        If module, signature and uids do not match.
    """

    def __init__(
        self,
        module: LoadedModule,
        signature: Signature,
        uids: Sequence[int],
        names: Sequence[str] = (),
        *,
        remember: int = 256,
        in_place: Iterable[tuple[int, int]] = (),
    ) -> None:
        _check(module, signature, uids, names)
        self.module = module
        self.signature = signature
        self.uids = tuple(uids)
        names = names or [""] * len(uids)
        labels = [name or f"uid {uid}" for uid, name in zip(uids, names, strict=True)]
        self._arguments = tuple(map(Argument, self.uids, labels, signature.args))
        self._binder = Binder.of(module, self._arguments, signature.workspace_bytes)
        # A plan whose execution has not ended stays: the next one on its buffers must wait for it.
        self._bound: LruCache[BoundPlan] = LruCache(remember, _is_busy)
        self._in_place = frozenset(in_place)
        self._calls = AddressCalls(self._binder, remember, self._in_place)
        self._submits = False  # whether `execute_async` was used, whose order `_bound` keeps

    @property
    def device(self) -> Device:
        """The device that executes the code."""
        return self.module.device

    @property
    def workspace_bytes(self) -> int:
        """Bytes of workspace that an execution needs."""
        return self.signature.workspace_bytes

    @property
    def staging_bytes(self) -> int:
        """Bytes of memory for copies of buffers, which all plans of the device share."""
        pool = self.device.staging and self.device.staging()
        return pool.nbytes if pool else 0

    def bind(
        self,
        buffers: Mapping[int, BufferLike],
        workspace: BufferLike | None = None,
        *,
        copy: bool = False,
    ) -> BoundPlan:
        """Check the buffers and return a plan that executes on them.

        Parameters
        ----------
        buffers : mapping of int to BufferLike
            A buffer for the uid of every argument; `caller_memory` lists what is accepted.
        workspace : BufferLike, optional
            At least `workspace_bytes` of contiguous memory, used from its first 64-byte boundary
            on.  If that leaves too little, or for None or a null pointer, each call acquires a
            workspace that the plans of the device share (`workspaces`).
        copy : bool
            Whether buffers in other strides, or in host memory for a GPU, are copied in and
            out at each call.

        Raises
        ------
        BindError
            If a buffer does not fit; ``problems`` lists all of them (`binding_rules.RULES`).
        DeviceError
            If memory runs out, or the process was forked after the device was opened.
        """
        self.device.check()
        found = self._describe(buffers, workspace)
        self._check(found, copy)
        return self._binder.bind(found.memory, found.readers, found.owners)

    def execute(
        self,
        buffers: Mapping[int, BufferLike],
        workspace: BufferLike | None = None,
    ) -> None:
        """Execute on the buffers; the argument lists of recent buffer sets are kept.

        Parameters and errors are those of `bind`.  Threads may call it concurrently.

        Notes
        -----
        Only addresses and the facts that were checked (type, dims, strides, size, writability)
        are remembered, not objects.  So no caller's memory is kept alive, and freed memory is
        never touched: an entry is used only if a caller passes the same address with the same
        facts again.  `forget` drops all of them.
        """
        self.device.check()
        call = found = None
        if not self._submits:
            addresses = self._calls.addresses(buffers)
            if addresses is None:
                found = self._describe(buffers, workspace)
                addresses = self._calls.recognised(found)
            if addresses is not None:
                call = self._calls.call(addresses, workspace, once=True)
        if call is not None:
            call()
            return
        plan, values = self._find(found or self._describe(buffers, workspace))
        plan._call(values)

    def call_at(
        self,
        addresses: Mapping[int, int],
        workspace: Pointer | None = None,
        *,
        once: bool = False,
        copies: bool = True,
    ) -> Call | None:
        """Return the call for addresses by uid; it is remembered as those of `execute` are.

        ``once`` is for a caller who does not keep it: as long as addresses are new at each call,
        buffers are moved rather than made.  Of a scalar it is the address of host memory, which
        is read at each call.  Without ``copies`` misaligned memory is declined.  Addresses that
        break a rule are declined too: the answer is None, and `bind` tells why.
        """
        found = tuple([addresses.get(uid, 0) for uid in self.uids])
        return self._calls.call(found, workspace, once=once, copies=copies)

    def execute_async(
        self,
        buffers: Mapping[int, BufferLike],
        workspace: BufferLike | None = None,
        *,
        after: Iterable[Pending] = (),
    ) -> Pending:
        """Start an asynchronous execution on the buffers; see `BoundPlan.submit`.

        The caller must not touch the buffers, or a workspace that it gives, until the execution
        is done; objects are kept alive until then.  Executions on the same buffer set run one
        after another.  Executions that share only some buffers, or a workspace, need ``after``.
        """
        self.device.check()
        self._submits = True
        found = self._describe(buffers, workspace)
        plan, values = self._find(found)
        return plan._submit(values, after, found.owners)

    def execute_many(
        self,
        sets: Iterable[Mapping[int, BufferLike]],
        workspace: BufferLike | None = None,
    ) -> None:
        """Execute on each of several buffer sets, in order, and return when all are done.

        All sets are checked before the first execution.  On devices that work in parallel to the
        host (``local-task``, GPUs) executions are enqueued without waiting, and the host waits
        once.  A later set reads what earlier ones have written.

        Raises
        ------
        BindError
            If a buffer does not fit; the text names its set, and nothing was executed.
        DeviceError
            If the device fails; earlier sets may have been executed.
        """
        self.device.check()
        described, found = [], []
        for number, buffers in enumerate(sets):
            try:
                described.append(self._describe(buffers, workspace))  # they keep the memory alive
                found.append(self._find(described[-1]))
            except BindError as error:
                raise BindError(f"set {number}: {error.message}", error.problems) from None
        device = self.device
        if device.asynchronous or device.driver == "local-sync":
            for plan, values in found:
                plan._call(values)
        else:
            run_chain(device, found)

    def _find(self, found: BufferSet) -> tuple[BoundPlan, Values]:
        """Return the plan for the buffers, and the scalars."""
        if found.problems:
            self._check(found)
        values = tuple([read() for read in found.readers.values()])
        memory = found.memory
        key = tuple(memory.items()) if "workspace" in memory else tuple(memory.values())
        plan = self._bound.find(key)
        if plan is None:
            self._check(found)
            made = self._binder.bind(memory, found.readers)
            plan = self._bound.get(key, lambda: made)
        return plan, values

    def forget(self) -> None:
        """Drop all buffer sets that `execute` remembers."""
        self._bound.clear()
        self._calls.forget()

    def run(
        self, inputs: Mapping[int, BufferLike], *, copy: bool = False
    ) -> dict[int, npt.NDArray[Any]]:
        """Execute once on new output arrays and return these by uid.

        Outputs are logical views in the tensor's strides, 64-byte aligned; 4- and 6-bit types
        have one element per byte (ml_dtypes).  Errors are those of `bind`.
        """
        outputs = {uid: result(spec) for uid, _, spec in self._arguments if spec.output}
        if outputs.keys() & inputs.keys():
            raise refusal(unknown(outputs.keys() & inputs.keys(), "run() makes the outputs"))
        buffers = {**inputs, **outputs}
        addresses = self._calls.addresses(buffers)
        call: Call | None = None
        if addresses is not None:
            call = self._calls.call(addresses, once=True, remember=False)
        call = call or self.bind(buffers, copy=copy or not self.device.on_host)
        call()
        return outputs

    def _describe(
        self, buffers: Mapping[int, BufferLike], workspace: BufferLike | None
    ) -> BufferSet:
        return BufferSet(self._arguments, buffers, workspace if self.workspace_bytes else None)

    def _check(self, found: BufferSet, copy: bool = False) -> None:
        if not self._calls.fits(found):
            found.check(
                self.device,
                workspace_bytes=self.workspace_bytes,
                copy=copy,
                in_place=self._in_place,
            )
            self._calls.learn(found)


def _is_busy(plan: BoundPlan) -> bool:
    return plan.busy


def _check(
    module: LoadedModule, signature: Signature, uids: Sequence[int], names: Sequence[str]
) -> None:
    """Raise `ArtifactError` if module, signature and uids do not match."""
    args = signature.args
    if len(uids) != len(args) or len(set(uids)) != len(uids) or len(names) not in (0, len(args)):
        raise ArtifactError(
            f"the code takes {len(args)} arguments; got uids {list(uids)}, names {list(names)}"
        )
    if [a.output for a in args] != sorted((a.output for a in args), reverse=True):
        raise ArtifactError("outputs come before inputs in a signature")
    for spec, uid in zip(args, uids, strict=True):
        if span(spec.dims, spec.strides) != prod(spec.shape):
            raise ArtifactError(
                f"uid {uid}: dims {spec.dims} with strides {spec.strides} do not span the "
                f"code's shape {spec.shape}"
            )
    if module.workspace_bytes not in (None, signature.workspace_bytes):
        raise ArtifactError(
            f"the signature names {signature.workspace_bytes} bytes of workspace, the code "
            f"{module.workspace_bytes}: they are not of one compilation"
        )
