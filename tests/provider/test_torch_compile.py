# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models through `torch.compile`: equal to eager, and on whose engines each op ran."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hipdnn_iree.graph_api.errors import DeviceError, NotSupportedError, SettingError
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.provider.selection.winners import winners
from hipdnn_iree.provider.torch import Report, backend, compile, reports, split

torch = pytest.importorskip("torch")

from benchmarks.torch_models import MODELS, example  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

# What PyTorch keeps of each model; all other ops are in hipDNN graphs.
STAYS = {"text_encoder": {"aten.embedding.default"}}


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HIPDNN_IREE_POLICY", "order")  # no times decide
    torch._dynamo.reset()
    reports(clear=True)
    yield
    torch._dynamo.reset()


def bound(wanted: Any, terms: int) -> float:
    """What rounding may do in float32: a sum of `terms` products, of the largest result's size."""
    scale: float = wanted.abs().max().item()
    return float(8 * 2.0**-24 * terms**0.5 * max(scale, 1.0))


def doubled(module: Any, inputs: tuple[Any, ...]) -> Any:
    wide = copy.deepcopy(module).double()
    return wide(*(x.double() if x.is_floating_point() else x for x in inputs))


def the_report() -> Report:
    (found,) = reports(clear=True)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    one = example(name)
    made = torch.compile(one.module, backend="hipdnn_iree", fullgraph=True)
    with torch.no_grad():
        got, wanted = made(*one.inputs), doubled(one.module, one.inputs)
    assert got.dtype is torch.float32
    assert (got - wanted).abs().max() <= bound(wanted, 4096)
    found = the_report()
    assert {stayed.op for stayed in found.stayed} == STAYS.get(name, set())
    assert set(found.engines) - {"pytorch"} == {"IREE_JIT_ENGINE"}


@pytest.mark.slow
def test_training() -> None:
    one = example("cnn")
    plain, served = copy.deepcopy(one.module).train(), copy.deepcopy(one.module).train()
    made = compile(served)
    for module in (plain, made):
        module(*one.inputs).square().mean().backward()
    forward, backward = reports()
    assert (forward.name[:7], backward.name[:8]) == ("forward", "backward")
    assert not forward.stayed
    assert not backward.stayed
    for (name, wanted), got in zip(plain.named_parameters(), served.parameters(), strict=True):
        scale = wanted.grad.abs().max().item()
        assert (got.grad - wanted.grad).abs().max() <= 1e-4 * scale, name
    for (name, wanted), got in zip(plain.named_buffers(), served.buffers(), strict=True):
        assert torch.allclose(got, wanted, rtol=1e-5), name


def _block(x: Any, w: Any) -> Any:
    return torch.relu(x @ w) + x.mean()


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16"])
def test_types(kind: str) -> None:
    x, w = (torch.randn(24, 24).to(getattr(torch, kind)) for _ in range(2))
    got = torch.compile(_block, backend=backend)(x, w)
    assert got.dtype is x.dtype
    wanted = _block(x.double(), w.double())
    assert (got - wanted).abs().max() <= 8 * torch.finfo(x.dtype).eps * wanted.abs().max()
    assert not the_report().stayed


def test_other_sizes_have_the_same_code(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "hipdnn_iree.pipeline")
    made = torch.compile(_block, backend=backend, dynamic=True)
    w = torch.randn(15, 15)
    for rows in (5, 3, 7, 3, 5, 64):
        x = torch.randn(rows, 15)
        assert torch.allclose(made(x, w), _block(x, w), atol=1e-4)
        compiled = sum(text.startswith("compiling") for text in caplog.messages)
        caplog.clear()
        assert rows == 5 or not compiled
    found = the_report()
    assert not found.stayed


def test_sizes_that_are_no_rule_are_compiled_when_they_are_met() -> None:
    def cut(x: Any) -> Any:
        return torch.relu(x[: x.shape[0] // 3])

    made = torch.compile(cut, backend=backend, dynamic=True)
    for rows in (9, 10, 33):
        x = torch.randn(rows, 4)
        assert torch.equal(made(x), cut(x))


def test_a_batch_that_is_marked_with_training() -> None:
    def step(x: Any, w: Any) -> Any:
        return torch.softmax(torch.nn.functional.gelu(x @ w), -1).square().sum()

    made = torch.compile(step, backend=backend)
    w = torch.randn(12, 10)
    for rows in (4, 9, 2):
        x = torch.randn(rows, 12)
        torch._dynamo.mark_dynamic(x, 0)
        ours, theirs = (w.clone().requires_grad_() for _ in range(2))
        made(x, ours).backward()
        step(x, theirs).backward()
        assert torch.allclose(ours.grad, theirs.grad, atol=1e-4)
    forward, backward = reports(clear=True)
    assert not forward.stayed
    assert not backward.stayed


def test_strides_of_inputs_and_results() -> None:
    x = torch.randn(2, 8, 9, 9).to(memory_format=torch.channels_last)
    conv = torch.nn.Conv2d(8, 16, 3).to(memory_format=torch.channels_last)
    with torch.no_grad():
        got = torch.compile(conv, backend=backend)(x)
        assert torch.allclose(got, conv(x), atol=1e-4)
        assert got.stride() == conv(x).stride()
    part = torch.randn(40, 40)[3:19, 5:21]
    assert not part.is_contiguous()
    assert torch.allclose(
        torch.compile(_block, backend=backend)(part, part), _block(part, part), atol=1e-4
    )


def test_what_no_engine_serves_stays_in_torch() -> None:
    def mixed(x: Any) -> Any:
        values, _ = torch.sort(torch.relu(x) * 2, dim=0)
        return torch.sigmoid(values) + x

    x = torch.randn(12, 12)
    assert torch.allclose(torch.compile(mixed, backend=backend)(x), mixed(x), atol=1e-6)
    found = the_report()
    assert [(s.op, s.rule) for s in found.stayed] == [("aten.sort.default", "ATEN-01")]
    assert found.parts == 2
    assert found.engines == {"IREE_JIT_ENGINE": 4, "pytorch": 1}
    said = "sort (aten.sort.default) stays: [ATEN-01] got aten.sort; wanted an op that has a form"
    assert said in str(found)
    assert found.as_dict()["stayed"][0]["op"] == "aten.sort.default"


@pytest.mark.parametrize(("rule", "breaks"), [("DYNAMO-01", "outline"), ("DYNAMO-02", "offload")])
def test_what_cannot_be_imported_or_built_stays_in_torch(
    rule: str, breaks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise NotSupportedError("not today")

    monkeypatch.setattr(split, breaks, fail)
    x = torch.randn(4, 4)
    assert torch.equal(torch.compile(_block, backend=backend)(x, x), _block(x, x))
    found = the_report()
    told = {(s.rule, s.reason.partition(";")[0]) for s in found.stayed}
    assert told == {(rule, "got NotSupportedError: not today")}
    assert found.engines == {"pytorch": 4}


def test_positions_and_masks_are_computed_once() -> None:
    def masked(x: Any) -> Any:
        rows = torch.arange(8)
        return torch.where(rows[:, None] >= rows, x, torch.zeros(()))

    x = torch.randn(8, 8)
    assert torch.equal(torch.compile(masked, backend=backend)(x), x.tril())
    assert not the_report().stayed


def test_average_pooling_is_trained() -> None:
    """With the stride that PyTorch leaves out, and a gradient that is a graph of ours."""

    def pooled(x: Any) -> Any:
        return torch.nn.functional.avg_pool2d(x.square(), 2).sum()

    x, other = (torch.arange(96.0).reshape(1, 2, 6, 8).requires_grad_() for _ in range(2))
    torch.compile(pooled, backend=backend)(x).backward()
    pooled(other).backward()
    assert torch.allclose(x.grad, other.grad)
    assert not [stayed for found in reports() for stayed in found.stayed]


def test_random_numbers_are_new_at_each_call() -> None:
    made = torch.compile(lambda x: x + torch.rand(64), backend=backend)
    x = torch.zeros(64)
    assert not torch.equal(made(x), made(x))


def test_views_stay_views() -> None:
    made = torch.compile(lambda x: (x * 2).transpose(0, 1), backend=backend)
    x = torch.randn(5, 9)
    assert torch.equal(made(x), (x * 2).t())
    assert the_report().engines == {"IREE_JIT_ENGINE": 1}


def test_arguments_that_are_handed_back() -> None:
    made = torch.compile(lambda x, y: (x, x + y, y.view(-1)), backend=backend)
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    same, added, flat = made(x, y)
    assert torch.equal(same, x)
    assert torch.equal(added, x + y)
    assert torch.equal(flat, y.view(-1))


def test_compile_leaves_buffers_as_they_were() -> None:
    norm = torch.nn.BatchNorm1d(6).train()
    before = norm.running_mean.clone()
    made = compile(norm, (torch.randn(10, 6) + 3,))
    assert len(reports()) == 1
    assert torch.equal(norm.running_mean, before)
    made(torch.randn(10, 6) + 3)
    assert len(reports()) == 1
    assert not torch.equal(norm.running_mean, before)


def test_a_pinned_engine_and_options() -> None:
    x = torch.randn(4, 4)
    made = torch.compile(_block, backend="hipdnn_iree", options={"engine": "reference"})
    assert torch.allclose(made(x, x), _block(x, x), atol=1e-5)
    assert set(the_report().engines) == {"REFERENCE_ENGINE"}
    with pytest.raises(SettingError, match="no option 'engin'"):
        backend(None, (), options={"engin": "iree"})


def test_what_pytorchs_engine_is_chosen_for_runs_as_it_was_traced() -> None:
    """Not by a plan: the engine's batch norm rounds otherwise, and binds memory at each call."""
    one = example("resnet_block")
    made = torch.compile(one.module, backend="hipdnn_iree", options={"engine": "torch"})
    with torch.no_grad():
        assert torch.equal(made(*one.inputs), one.module(*one.inputs))
    found = the_report()
    assert found.engines == {"TORCH_CPU_ENGINE": 9}
    assert (found.parts, {group.part for group in found.groups}) == (0, {""})
    assert str(found).endswith("9 by TORCH_CPU_ENGINE, in 3 graphs and 0 parts")


def test_graphs_of_several_engines(tmp_path: Path) -> None:
    """Each graph has the engine that policies choose; the clone between two goes with neither."""
    rules = tmp_path / "rules.json"
    rule = {"op": "matmul", "engine_name": "TORCH_CPU_ENGINE", "tensors": [{"dim": [-1, -1]}] * 2}
    rules.write_text(json.dumps({"engine_overrides": [rule]}))

    def mixed(x: Any, w: Any) -> Any:
        y = torch.softmax(x, -1).transpose(1, 2).contiguous() @ w
        return torch.layer_norm(y, [8]) + x

    x, w = torch.randn(2, 8, 8), torch.randn(8, 8)
    with scope(engine_config=rules, engine_policy="config,order"):
        got = torch.compile(mixed, backend=backend)(x, w)
    assert torch.allclose(got, mixed(x, w), atol=1e-5)
    found = the_report()
    engines = {node: group.engine for group in found.groups for node in group.nodes}
    assert engines["mm"] == "TORCH_CPU_ENGINE"
    assert engines["_softmax"] == engines["add"] == "IREE_JIT_ENGINE"
    assert "clone" not in engines
    assert found.parts == 2
    assert not found.stayed


def test_a_policy_that_measures_remembers_each_graph_once(tmp_path: Path) -> None:
    x, w = torch.randn(12, 12), torch.randn(12, 12)
    path = tmp_path / "winners.json"

    def engines(**options: Any) -> list[str]:
        torch._dynamo.reset()
        made = torch.compile(_block, backend="hipdnn_iree", options=options)
        assert torch.allclose(made(x, w), _block(x, w), atol=1e-5)
        return sorted(group.engine for group in the_report().groups)

    with scope(engine_winners=path):
        assert engines(policy="order") == ["IREE_JIT_ENGINE"] * 2
        assert not winners(path).entries
        found = engines(policy="tuned,benchmark,order")
        known = winners(path).entries
        pairs = [(e.engine, e.graph) for e in known]
        assert {name for name, _ in pairs} == {"IREE_JIT_ENGINE", "TORCH_CPU_ENGINE"}
        assert len(set(pairs)) == len(pairs) == 4
        assert engines(policy="benchmark") == found  # parts that are looked at are not measured
        assert winners(path).entries == known


def test_tensors_where_the_code_does_not_run() -> None:
    x = torch.randn(4, 4)
    with pytest.raises(DeviceError, match="on the CPU, where code for gfx942"):
        backend(None, (x,), options={"target": "gfx942"})
    if torch.version.hip is None:
        with pytest.raises(DeviceError, match="none of AMD's"):
            backend(None, (SimpleTensor("cuda:0"),))


class SimpleTensor(torch.Tensor):  # type: ignore[misc]
    """A tensor that says where it is."""

    def __new__(cls, where: str) -> SimpleTensor:
        made: SimpleTensor = torch.Tensor._make_subclass(cls, torch.zeros(4))
        made.where = torch.device(where)
        return made

    @property
    def device(self) -> Any:
        return self.where


def test_a_part_on_a_gpu_runs_on_the_current_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is called, in the place of a GPU: addresses of outputs and inputs, and the stream."""
    from hipdnn_iree.graph_api.dtypes import DataType
    from hipdnn_iree.provider.offload.program import TensorType
    from hipdnn_iree.provider.torch.part import part_call

    kind, calls = TensorType((4,), DataType.FLOAT), []
    executor = SimpleNamespace(outputs=(kind,), inputs=(kind,), device_id=0, execute=calls.append)
    fake, stream = SimpleTensor("cuda:0"), SimpleNamespace(cuda_stream=42)
    empty = torch.empty
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: {0: stream}[device.index])
    monkeypatch.setattr(torch, "empty", lambda dims, *, dtype, device: empty(dims, dtype=dtype))
    call = part_call(executor, [fake], [fake])  # type: ignore[arg-type]
    x = torch.zeros(4)
    (y,) = call(x)
    assert calls == [(y.data_ptr(), x.data_ptr(), 42)]
    with pytest.raises(NotSupportedError, match="tensors on cpu"):
        part_call(executor, [x], [x])  # type: ignore[arg-type]
