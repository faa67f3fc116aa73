# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The backend of ``torch.compile``: what Dynamo has traced becomes a call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

from ...graph_api.errors import DeviceError, SettingError
from ...jit.lru import LruCache
from ...jit.target import Target
from ..torch_import import load_torch
from .decompositions import table
from .fold import fold_constants
from .part import gpu_of, target_of_gpu
from .report import noted
from .split import Sizes, Split, Splitter
from .symbols import Symbols
from .trial import settled
from .weights import static_inputs

__all__ = ["backend", "compile"]

_OPTIONS = ("engine", "hold_weights", "policy", "target")
_KEPT_SIZES = 64
_NUMBERS = count()

Call = Callable[..., Any]


def backend(
    graph_module: Any, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Call:
    """Compile what Dynamo has traced: ``torch.compile(model, backend="hipdnn_iree")``.

    Parameters
    ----------
    graph_module : torch.fx.GraphModule
    example_inputs : sequence of Tensor
    options : mapping, optional
        As given to ``torch.compile``: ``target`` (by default what the tensors are on), ``engine``
        and ``policy`` as of ``Graph.build`` (by default, on a CPU, PyTorch's functions stay
        unless an engine's code is measured to be faster at the first call), ``hold_weights`` (by
        default False): whether plans for a CPU hold packed copies of weights in inference; a
        weight that is changed behind PyTorch's back may then go unseen (docs/torch-compile.md).

    Returns
    -------
    callable

    Raises
    ------
    SettingError
        For an option that is not known.
    DeviceError
        If the tensors are on a GPU that no code is made for, or not where code for the target
        runs.
    """
    chosen = dict(options or {})
    for name in chosen:
        if name not in _OPTIONS:
            raise SettingError(
                f"torch.compile has no option {name!r} for hipdnn_iree; "
                f"it has {', '.join(_OPTIONS)}"
            )
    from torch._dynamo.backends.common import aot_autograd

    holds = chosen.pop("hold_weights", False)
    if not isinstance(holds, bool):
        raise SettingError(f"hold_weights: got {holds!r}; wanted True or False")
    gpu = gpu_of(example_inputs)
    asked = chosen.pop("target", None)
    target = Target.parse(asked or ("cpu" if gpu is None else target_of_gpu(gpu)))
    if target.is_cpu is not (gpu is None):
        where = "the CPU" if gpu is None else f"GPU {gpu}"
        raise DeviceError(f"the tensors are on {where}, where code for {target} does not run")
    compiled = partial(_compiled, target=target, chosen={**chosen, "device_id": gpu})
    made: Call = aot_autograd(
        fw_compiler=partial(compiled, kind="forward"),
        bw_compiler=partial(compiled, kind="backward"),
        inference_compiler=partial(compiled, kind="inference", holds=holds and target.is_cpu),
        decompositions=table(),
    )(graph_module, example_inputs)
    return made


def compile(module: Any, example_args: Sequence[Any] = (), **options: Any) -> Any:
    """Return a module compiled with `backend`, for the sizes of the example at once.

    Parameters
    ----------
    module : torch.nn.Module or callable
    example_args : sequence
        The module is called with them once, in the grad mode of the caller; its buffers are as
        before afterwards.  Without them the first call compiles.
    **options
        As of `backend`.

    Returns
    -------
    callable
        What ``torch.compile`` gives.
    """
    torch = load_torch()
    made = torch.compile(module, backend=partial(backend, options=options))
    if example_args:
        buffers = dict(module.named_buffers()) if isinstance(module, torch.nn.Module) else {}
        before = {name: buffer.clone() for name, buffer in buffers.items()}
        made(*example_args)
        with torch.no_grad():
            for name, value in before.items():
                buffers[name].copy_(value)
    return made


def _compiled(
    graph_module: Any,
    example_inputs: Sequence[Any],
    *,
    kind: str,
    target: Target,
    chosen: Mapping[str, Any],
    holds: bool = False,
) -> Call:
    """Return the call, boxed as AOTAutograd wants it, of a graph of ATen ops."""
    from torch._functorch.aot_autograd import make_boxed_func
    from torch._functorch.compile_utils import fx_graph_cse
    from torch.fx import GraphModule
    from torch.utils._python_dispatch import _disable_current_modes

    symbols = Symbols(graph_module, example_inputs)
    is_open = bool(symbols.sizes(example_inputs))

    def graph_at(sizes: Mapping[str, Any]) -> Any:
        traced = symbols.traced(sizes) if is_open else graph_module
        plain = GraphModule(traced, fx_graph_cse(traced.graph))
        fold_constants(plain)
        return plain

    # Code for all sizes takes weights as arguments.
    weights = static_inputs() if holds and not is_open else ()
    splitter = Splitter(graph_at, symbols.names, target, weights=weights, **chosen)
    name, lock = f"{kind} {next(_NUMBERS)}", threading.Lock()

    def made(sizes: Sizes) -> Call:
        begin = time.perf_counter()
        # Dynamo calls this under its mode of fake tensors; constants and engines need real ones.
        with _disable_current_modes():
            fused = splitter.at(sizes)
        if not (splitter.settled or splitter.open):
            splitter.settled = True
            noted(fused.report(name, time.perf_counter() - begin))
        if splitter.settled:
            found: Call = fused.module.forward
            return found
        return _decided_by(partial(decided, sizes, fused, time.perf_counter() - begin), lock)

    def decided(sizes: Sizes, fused: Split, spent: float, values: Sequence[Any]) -> Call:
        """Return the call that is the fastest with some values."""
        begin = time.perf_counter()
        with _disable_current_modes():  # such as what counts operations, of one call
            if splitter.settled:  # by a call of other sizes meanwhile
                found = splitter.at(sizes)
            else:
                found = settled(splitter, sizes, values, fused)
                noted(found.report(name, spent + time.perf_counter() - begin))
        call: Call = found.module.forward
        return call

    kept: LruCache[Call] = LruCache(_KEPT_SIZES)

    def call(*values: Any) -> Any:
        sizes = symbols.sizes(values)
        return kept.get(tuple(sizes.values()), lambda: made(sizes))(*values)

    boxed: Call = make_boxed_func(call if is_open else made({}))
    return boxed


def _decided_by(decide: Callable[[Sequence[Any]], Call], lock: threading.Lock) -> Call:
    """Return a call that is decided by the values of the first one."""
    pending, found = [decide], list[Call]()  # what decides keeps much that is not needed later

    def call(*values: Any) -> Any:
        if not found:
            with lock:
                if not found:
                    found.append(pending[0](values))
                    pending.clear()
        return found[0](*values)

    return call
