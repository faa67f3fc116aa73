"""Compiled code bound to buffers: checked once, then run for microseconds a call.

`Executable` joins a loaded module with its signature and the graph's uids and names;
`Executable.bind` gives a `BoundPlan`, which keeps its buffers alive and runs at each call;
`Executable.execute` binds and runs at once and remembers what it bound.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ...graph_api.errors import ArtifactError, BindError, DeviceError, HipdnnIreeError, Problem
from ..signature import ArgSpec, Signature
from .arrays import ALIGNMENT, result, span
from .buffers import BufferLike, Given, describe, same_layout
from .device import Device, reason
from .memory import Lease, Pool, Stage, Step, adopt, as_view
from .module import Module
from .rules import judge, judge_workspace, overlaps
from .scalars import ArgumentList, Reader, describe_scalar

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["BoundPlan", "Executable"]

Call = Callable[..., None]
"""Runs the function; takes the scalars of this one run, when not those that were bound."""


class BoundPlan:
    """A compiled function with its buffers; calling it runs it.

    The plan keeps alive every Python object whose memory it uses; memory behind a `Pointer` or
    an int address is the caller's to keep.  A call reads the inputs anew, overwrites the outputs
    in place and allocates nothing.  Scalars that were given as memory are read anew, too.  It
    returns when the results are there; on a device with an external stream it returns when the
    work is enqueued, and all memory must live until the stream has run it.

    Threads: calls of one plan wait for one another, as they share outputs and workspace;
    different plans run at the same time (the caller must not give them one workspace).

    Attributes
    ----------
    staged : tuple of str
        Tensors that are copied at each call: misaligned, or in need of ``copy=True``.
    """

    __slots__ = ("__weakref__", "_call", "staged")

    def __init__(self, call: Call, staged: tuple[str, ...]) -> None:
        self._call = call
        self.staged = staged

    def __call__(self) -> None:
        """Run.

        Raises
        ------
        DeviceError
            If the device fails, or the process was forked since the device was opened.
        ArtifactError
            If the code takes other arguments than its signature says.
        """
        self._call()

    def close(self) -> None:
        """Let go of the buffers and give the workspace back; later calls raise `BindError`.

        What a call in another thread uses is let go when that call ends.
        """
        self._call = _closed


def _closed(values: object = None) -> None:
    raise BindError("this plan was closed; bind the buffers again")


class Executable:
    """Loaded code with the signature, uids and names of the graph that asked for it.

    Parameters
    ----------
    module : Module
        The code, on its device.
    signature : Signature
        Its arguments, outputs first.
    uids : sequence of int
        The graph's uid of each argument.
    names : sequence of str, optional
        The graph's name of each argument, for error texts.
    remember : int
        How many sets of buffers `execute` remembers.

    Raises
    ------
    ArtifactError
        If module, signature and uids do not belong together.
    """

    def __init__(
        self,
        module: Module,
        signature: Signature,
        uids: Sequence[int],
        names: Sequence[str] = (),
        *,
        remember: int = 16,
    ) -> None:
        _check(module, signature, uids, names)
        self.module = module
        self.signature = signature
        self.uids = tuple(uids)
        names = names or [""] * len(uids)
        labels = [name or f"uid {uid}" for uid, name in zip(uids, names, strict=True)]
        self._arguments = tuple(zip(self.uids, labels, signature.args, strict=True))
        self._pool = Pool(module.device, signature.workspace_bytes)
        self._bound: OrderedDict[object, BoundPlan] = OrderedDict()
        self._remember = remember
        self._lock = threading.Lock()

    @property
    def device(self) -> Device:
        """Where the code runs."""
        return self.module.device

    @property
    def workspace_bytes(self) -> int:
        """Bytes of workspace that a run wants."""
        return self.signature.workspace_bytes

    def bind(
        self,
        buffers: Mapping[int, BufferLike],
        workspace: BufferLike | None = None,
        *,
        strict: bool = True,
        copy: bool = False,
    ) -> BoundPlan:
        """Check the buffers and return a plan that runs on them.

        Parameters
        ----------
        buffers : mapping of int to BufferLike
            A buffer for the uid of every argument; the module `buffers` says what is taken.
        workspace : BufferLike, optional
            At least `workspace_bytes` of contiguous memory.  It is used from its first 64-byte
            boundary on; where that leaves too little, the executable's own memory is used.
            None takes a workspace of the executable's, which goes back when the plan dies.
        strict : bool
            Whether a uid that is no argument is an error.
        copy : bool
            Whether buffers in other strides, or in host memory for a GPU, are copied in and
            out at each call.

        Raises
        ------
        BindError
            If a buffer does not fit; ``problems`` has all of them (`rules.RULES`).
        DeviceError
            If memory runs out, or the process was forked since the device was opened.
        """
        self.device.check()
        givens, owners, problems, readers = self._describe(buffers, workspace, strict)
        self._judge(givens, problems, copy)
        return self._prepare(givens, owners, None, readers)

    def execute(
        self,
        buffers: Mapping[int, BufferLike],
        workspace: BufferLike | None = None,
        *,
        strict: bool = True,
    ) -> None:
        """Run on the buffers; the argument lists of the last few sets of buffers are kept.

        Parameters and errors are those of `bind`.  May be called by many threads at once.

        Notes
        -----
        What is remembered is addresses with the facts they were judged by (type, dims, strides,
        size, writability), not objects: no caller's memory is kept alive, and freed memory is
        never touched, since an entry is used only when a caller presents the same address with
        the same facts again.  Staging copies and a pool workspace stay with an entry until it
        is the one used least recently; `forget` drops all of them.
        """
        self.device.check()
        givens, owners, problems, readers = self._describe(buffers, workspace, strict)
        if problems:
            self._judge(givens, problems, copy=False)
        values = tuple([read() for read in readers])
        # An own workspace is this call's alone; as the last one returned is taken first, calls
        # one after another meet the same one and find their entry.
        space = None if "workspace" in givens else self._pool.take()
        try:
            key = (id(space), *givens.values())
            with self._lock:
                plan = self._bound.get(key)
                if plan is not None:
                    self._bound.move_to_end(key)
            if plan is None:
                self._judge(givens, problems, copy=False)
                plan = self._prepare(givens, [], space, readers)
                with self._lock:
                    self._bound[key] = plan
                    while len(self._bound) > self._remember:
                        self._bound.popitem(last=False)
            if values:
                plan._call(values)
            else:
                plan()
        finally:
            if space is not None:
                self._pool.give(space)
        del owners  # until here they kept the memory alive

    def forget(self) -> None:
        """Drop what `execute` remembers."""
        with self._lock:
            self._bound.clear()

    def run(
        self, inputs: Mapping[int, BufferLike], *, strict: bool = True, copy: bool = False
    ) -> dict[int, npt.NDArray[Any]]:
        """Run once on new output arrays and return these by uid.

        Outputs are logical views in the tensor's strides, 64-byte aligned; 4- and 6-bit types
        have one element a byte (ml_dtypes).  Errors are those of `bind`.
        """
        outputs = {uid: result(spec) for uid, _, spec in self._arguments if spec.output}
        if strict and outputs.keys() & inputs.keys():
            raise _refusal(_unknown(outputs.keys() & inputs.keys(), "run() makes the outputs"))
        copy = copy or not self.device.on_host
        plan = self.bind({**inputs, **outputs}, strict=strict, copy=copy)
        plan()
        return outputs

    def _describe(
        self, buffers: Mapping[int, BufferLike], workspace: BufferLike | None, strict: bool
    ) -> tuple[dict[int | str, Given], list[object], list[Problem], list[Reader]]:
        """Return the facts of each buffer by uid and of the workspace, owners, problems, scalars.

        There is an owner for every argument when there is no problem.
        """
        givens: dict[int | str, Given] = {}
        readers: list[Reader] = []
        owners: list[object] = []
        problems: list[Problem] = []
        todo: list[tuple[int | str, str, BufferLike, ArgSpec | None]] = []
        for uid, label, spec in self._arguments:
            if uid in buffers:
                todo.append((uid, label, buffers[uid], spec))
            else:
                wanted = f"{'a number' if spec.scalar else 'a buffer'} for uid {uid}"
                problems.append(Problem(rule="BIND-01", port=label, got="none", wanted=wanted))
        if strict and len(buffers) > len(todo):
            problems += _unknown(buffers.keys() - self.uids, "strict=False lets it pass")
        if workspace is not None and self.workspace_bytes:
            todo.append(("workspace", "workspace", workspace, None))
        for key, label, buffer, about in todo:
            if about is not None and about.scalar:
                scalar = describe_scalar(buffer, about, label)
                if isinstance(scalar, list):
                    problems += scalar
                else:
                    readers.append(scalar[0])
                    owners.append(scalar[1])
                continue
            found = describe(buffer, label)
            if isinstance(found, Problem):
                problems.append(found)
            else:
                givens[key], owner = found
                owners.append(owner)
        return givens, owners, problems, readers

    def _judge(
        self, givens: Mapping[int | str, Given], problems: list[Problem], copy: bool
    ) -> None:
        """Raise `BindError` if there is a problem, found so far or now."""
        ranges: list[tuple[str, bool, int, int]] = []
        for uid, label, spec in self._arguments:
            if uid in givens:
                problems += judge(spec, givens[uid], label, self.device, copy)
                ranges.append((label, spec.output, *givens[uid].bounds(spec.nbytes)))
        space = givens.get("workspace")
        if space is not None:
            problems += judge_workspace(space, self.workspace_bytes, self.device)
            ranges.append(("workspace", True, *space.bounds(space.size or self.workspace_bytes)))
        if not problems:
            problems += overlaps(ranges)
        if problems:
            raise _refusal(problems)

    def _prepare(
        self,
        givens: Mapping[int | str, Given],
        owners: list[object],
        space: Any,
        readers: Sequence[Reader],
    ) -> BoundPlan:
        """Import or stage every buffer and build the call; ``space`` is a workspace to use."""
        from iree.runtime import HalFence

        module = self.module
        held: list[object] = [*owners, self.device]
        stages: dict[str, Stage] = {}
        arguments: list[Any] = []
        for position, (uid, label, spec) in enumerate(self._arguments):
            if spec.scalar:
                arguments.append(None)
                continue
            given = givens[uid]
            if self._fits(given) and same_layout(spec, given):
                buffer = adopt(self.device, given.address, spec.nbytes)
            else:
                owner = owners[position] if owners else None
                stages[label] = Stage(self.device, spec, given, owner)
                buffer = stages[label].buffer
            arguments.append(as_view(buffer, spec))
        if space is None:
            space, lease = self._workspace(givens.get("workspace"))
            held.append(lease)
        arguments.append(space)
        function = module.main
        if self.device.asynchronous and not stages:
            # Stream order is all the order there is: nothing to wait for, nothing to signal.
            function = module.main_async
            arguments += [HalFence(0), HalFence(0)]
        held += stages.values()
        before = [step for stage in stages.values() for step in stage.before]
        after = [step for stage in stages.values() for step in stage.after]
        kinds = [spec.data_type for _, _, spec in self._arguments if spec.scalar]
        lists = ArgumentList(arguments, kinds)
        if readers:
            call = _with_scalars(module, function, lists, readers, held)
        else:
            call = _direct(module, function, lists.at(()), held)
        if stages:
            call = _staged(call, before, after)
        return BoundPlan(call, tuple(stages))

    def _fits(self, given: Given) -> bool:
        """Whether IREE can use the memory where it is."""
        if not self.device.on_host:
            return given.device is None or given.device[0] in self.device.memory
        return given.address % ALIGNMENT == 0

    def _workspace(self, given: Given | None) -> tuple[Any, Lease | None]:
        """Return a HAL buffer of workspace, and the lease when it is one of the pool's."""
        if given is not None:
            skip = -given.address % ALIGNMENT
            if skip == 0 or (given.size or 0) >= skip + self.workspace_bytes:
                return adopt(self.device, given.address + skip, self.workspace_bytes), None
        lease = Lease(self._pool)
        return lease.buffer, lease


def _direct(module: Module, function: Any, arguments: Any, held: list[object]) -> Call:
    """Return the call without staging: a lock, a look at the process id, and IREE."""
    from iree.runtime import VmVariantList

    invoke, results = module.context.invoke, VmVariantList(0)
    device, lock, getpid = module.device, threading.Lock(), os.getpid
    pid = device.pid

    # `held` rides along as a default: buffers and workspace live as long as a running call.
    def call(held: list[object] = held) -> None:
        if getpid() != pid:
            device.check()
        with lock:
            try:
                invoke(function, arguments, results)
            except Exception as error:
                raise _failure(error, device) from error

    return call


def _with_scalars(
    module: Module,
    function: Any,
    lists: ArgumentList,
    readers: Sequence[Reader],
    held: list[object],
) -> Call:
    """Return the call that reads its scalars first, unless it is given them."""
    from iree.runtime import VmVariantList

    invoke, results = module.context.invoke, VmVariantList(0)
    device, lock, getpid = module.device, threading.Lock(), os.getpid
    pid = device.pid

    def call(values: tuple[bytes, ...] | None = None, held: list[object] = held) -> None:
        if getpid() != pid:
            device.check()
        with lock:
            now = tuple([read() for read in readers]) if values is None else values
            try:
                invoke(function, lists.at(now), results)
            except Exception as error:
                raise _failure(error, device) from error

    return call


def _staged(call: Call, before: Iterable[Step], after: Iterable[Step]) -> Call:
    """Return the call with its copies around it."""
    lock = threading.Lock()

    def staged(*values: object) -> None:
        with lock:
            for step in before:
                step()
            call(*values)
            for step in after:
                step()

    return staged


def _failure(error: Exception, device: Device) -> HipdnnIreeError:
    # IREE compares argument count, shape, type and size before any work.
    if isinstance(error, (ValueError, IndexError)):
        return ArtifactError(f"the code does not match its signature: {reason(error)}")
    return DeviceError(f"{device!r} failed: {reason(error)}")


def _unknown(uids: Iterable[object], hint: str) -> list[Problem]:
    wanted = "the uid of an argument"
    return [
        Problem(rule="BIND-02", port=f"uid {uid}", got="a buffer", wanted=wanted, hint=hint)
        for uid in sorted(uids, key=str)
    ]


def _refusal(problems: list[Problem]) -> BindError:
    many = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return BindError(f"{many} with the buffers; nothing was executed", problems)


def _check(module: Module, signature: Signature, uids: Sequence[int], names: Sequence[str]) -> None:
    """Raise `ArtifactError` when module, signature and uids do not belong together."""
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
