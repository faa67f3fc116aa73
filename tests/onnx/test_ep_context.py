# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models with compiled code (`EPContext`): of known sizes, of all sizes, damaged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from ep_models import model, node, on_cpu, session, values
from hipdnn_iree.provider.onnx import session_options

SUPPORT = Path(__file__).parents[1] / "support"

# Runs a model in a process that has neither code in a cache nor a compiler.
_RUN = """
import sys
sys.path[:0] = [{support!r}]
import numpy as np
from ep_models import session
options = dict(require_precompiled=True, cache_dir={folder!r} + "/none")
found = session({folder!r} + "/m_ctx.onnx", options)
feeds = np.load({folder!r} + "/feeds.npz")
results = dict()
for k in range({count}):
    feed = {{n.partition(".")[2]: feeds[n] for n in feeds if n.startswith(f"{{k}}.")}}
    results[str(k)] = found.run(None, feed)[0]
np.savez({folder!r} + "/results.npz", **results)
assert not [m for m in sys.modules if m.startswith(("torch_mlir", "iree.compiler"))]
"""


def written(
    source: bytes, folder: Path, options: dict[str, object] | None = None, *, embed: str = "0"
) -> Any:
    """Write the model with its code beside it, and return that."""
    (folder / "m.onnx").write_bytes(source)
    entries = {
        "ep__context_enable": "1",
        "ep__context_file_path": str(folder / "m_ctx.onnx"),
        "ep__context_embed_mode": embed,
    }
    session(str(folder / "m.onnx"), options, whole=False, **entries)
    return onnx.load(str(folder / "m_ctx.onnx"))


def runs_elsewhere(source: bytes, folder: Path, feeds: list[dict[str, Any]]) -> None:
    """Run the model that was written in a new process, and compare with the CPU provider."""
    np.savez(
        folder / "feeds.npz",
        **{f"{k}.{name}": array for k, feed in enumerate(feeds) for name, array in feed.items()},
    )
    code = _RUN.format(support=str(SUPPORT), folder=str(folder), count=len(feeds))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    with np.load(folder / "results.npz") as results:
        for k, feed in enumerate(feeds):
            wanted = on_cpu(source, feed)[0]
            np.testing.assert_allclose(results[str(k)], wanted, rtol=1e-4, atol=1e-4)


def chain() -> bytes:
    nodes = [node("MatMul", "x w", "m"), node("Relu", "m", "r"), node("Softmax", "r", "y", axis=-1)]
    return model(nodes, {"x": (4, 16)}, {"y": (4, 8)}, {"w": values((16, 8), 1)})


def sized() -> bytes:
    """Return a graph for all sizes, with weights, that reads what one of fixed sizes computes."""
    nodes = [
        *(node("MatMul", "c v", "a"), node("MatMul", "x w", "m")),
        *(node("Add", "m a", "s"), node("Relu", "s", "y")),
    ]
    weights = {"v": values((16, 8), 1), "w": values((16, 8), 2)}
    return model(nodes, {"x": ("n", 16), "c": (1, 16)}, {"y": ("n", 8)}, weights)


def sizes(*counts: int) -> list[dict[str, Any]]:
    return [{"x": values((n, 16), n), "c": values((1, 16), n + 1)} for n in counts]


@pytest.mark.parametrize("embed", ["0", "1"])
def test_a_model_with_compiled_code(tmp_path: Path, embed: str) -> None:
    """It runs in a process that loads neither the compiler nor torch-mlir, with an empty cache."""
    made = written(chain(), tmp_path, embed=embed)
    assert [n.op_type for n in made.graph.node] == ["EPContext"]
    runs_elsewhere(chain(), tmp_path, [{"x": values((4, 16))}])


@pytest.mark.parametrize("embed", ["0", "1"])
def test_one_code_for_all_sizes(tmp_path: Path, embed: str) -> None:
    made = written(sized(), tmp_path, embed=embed)
    assert [n.op_type for n in made.graph.node] == ["EPContext"]
    runs_elsewhere(sized(), tmp_path, sizes(3, 1, 37, 3, 4099))


def test_code_of_buckets(tmp_path: Path) -> None:
    """Sizes are rounded up to those that code was written for; beyond there is none."""
    written(sized(), tmp_path, {"buckets": "4,16"})
    runs_elsewhere(sized(), tmp_path, sizes(1, 4, 5, 16))
    found = session(str(tmp_path / "m_ctx.onnx"))
    with pytest.raises(Exception, match="the model with compiled code has none for n = 17") as no:
        found.run(None, sizes(17)[0])
    for part in (
        "the graph of MatMul_m/MatMulAddFusion, Relu_y has",  # not a number of ours
        "buckets n = 4, 16",
        "at least 17",
        "run the model that it was written from",
    ):
        assert part in str(no.value)


def test_sizes_that_no_code_is_for(tmp_path: Path) -> None:
    written(sized(), tmp_path)
    found = session(str(tmp_path / "m_ctx.onnx"))
    with pytest.raises(Exception, match="serves sizes from 1 to 4099; got n = 4100"):
        found.run(None, sizes(4100)[0])
    for got, wanted in zip(found.run(None, sizes(2)[0]), on_cpu(sized(), sizes(2)[0]), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def test_what_has_no_one_code_stays_in_a_model_with_code(tmp_path: Path) -> None:
    """Nodes of known dims are code; a convolution along a dim that is not is a node, and right."""
    nodes = [node("Relu", "x", "r"), node("Neg", "r", "y"), node("Conv", "u w", "v", pads=[1] * 4)]
    inputs = {"x": (3, 4), "u": (1, 2, "n", 6)}
    outputs = {"y": (3, 4), "v": (1, 3, "n", 6)}
    source = model(nodes, inputs, outputs, {"w": values((3, 2, 3, 3), 2)})
    made = written(source, tmp_path)
    assert sorted(n.op_type for n in made.graph.node) == ["Conv", "EPContext"]
    found = session(str(tmp_path / "m_ctx.onnx"))
    feed = {"x": values((3, 4)), "u": values((1, 2, 5, 6), 1)}
    for got, wanted in zip(found.run(None, feed), on_cpu(source, feed), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def test_a_classifier_has_one_code_for_all_batches(tmp_path: Path) -> None:
    """Windows over the whole input are reductions, and the dims of 1 behind them go."""
    nodes = [
        *(node("Conv", "x k", "c", pads=[1] * 4), node("Relu", "c", "r")),
        node("MaxPool", "r", "m", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        *(node("GlobalAveragePool", "m", "p"), node("Flatten", "p", "f")),
        *(node("Gemm", "f w b", "g"), node("Softmax", "g", "y", axis=-1)),
    ]
    weights = {"k": values((8, 3, 3, 3), 1), "w": values((8, 5), 2), "b": values((5,), 3)}
    source = model(nodes, {"x": ("n", 3, 9, 9)}, {"y": ("n", 5)}, weights)
    made = written(source, tmp_path)
    assert [n.op_type for n in made.graph.node] == ["EPContext"]
    runs_elsewhere(source, tmp_path, [{"x": values((n, 3, 9, 9), n)} for n in (1, 3, 17)])


def turned(*more: Any) -> bytes:
    """Return a graph with a dim known at execution, along which it has code for each size."""
    nodes = [node("Transpose", "x", "y", name="turn", perm=[0, 2, 1]), *more]
    outputs = {"y": ("batch", 3, 2), **{one.output[0]: (3, 4) for one in more}}
    inputs = {"x": ("batch", 2, 3), **{one.input[0]: (3, 4) for one in more}}
    return model(nodes, inputs, outputs)


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """It names the graph at fault, why it has code for each size, and what to do."""
    with pytest.raises(Exception, match=r"m_ctx.onnx cannot be written") as caught:
        written(turned(), tmp_path)
    said = str(caught.value)
    for word in ("graph of turn has code for each size", "IREE-DYN-02", "option buckets"):
        assert word in said
    made = written(turned(), tmp_path, {"buckets": "1,4"})
    assert [n.op_type for n in made.graph.node] == ["EPContext"]


def test_a_group_that_is_not_written_is_one_warning(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The rest is written; ONNX Runtime logs the warning unless it is told not to."""
    (tmp_path / "m.onnx").write_bytes(turned(node("Neg", "u", "v")))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 2
    options.add_session_config_entry("ep.context_enable", "1")
    options.add_session_config_entry("ep.context_file_path", str(tmp_path / "m_ctx.onnx"))
    session_options({}, device="cpu", onto=options)
    onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), options, enable_fallback=0)
    made = onnx.load(str(tmp_path / "m_ctx.onnx"))
    assert sorted(n.op_type for n in made.graph.node) == ["EPContext", "Transpose"]
    said = capfd.readouterr().err
    assert said.count("graph of turn has code for each size") == 1
    assert "m_ctx.onnx is written without 1 node:" in said
    assert "Neg_v" not in said
    assert "option buckets" in said


@pytest.mark.parametrize("source", [chain(), sized()], ids=["fixed", "sized"])
def test_damaged_code_is_told(tmp_path: Path, source: bytes) -> None:
    written(source, tmp_path)
    (held,) = tmp_path.glob("*.hipdnn-iree")
    data = bytearray(held.read_bytes())
    data[len(data) // 2] ^= 1
    held.write_bytes(data)
    with pytest.raises(Exception, match="the code of node"):
        session(str(tmp_path / "m_ctx.onnx"))


def test_inputs_of_several_ranks_and_sizes_in_turns() -> None:
    """Compute describes them to Python in one go: ranks and dims, one of them without any."""
    nodes = [node("MatMul", "x y", "m"), node("Mul", "m s", "p"), node("Add", "p b", "z")]
    dims = {"x": ("n", "k"), "y": ("k", 3), "s": (), "b": (3,)}
    source = model(nodes, dims, {"z": ("n", 3)})
    found = session(source)
    for n, k in ((2, 5), (7, 1), (2, 5), (1, 9), (7, 1)):
        shapes = ((n, k), (k, 3), (), (3,))
        feed = {name: values(shape, n) for name, shape in zip(dims, shapes, strict=True)}
        np.testing.assert_allclose(
            found.run(None, feed)[0], on_cpu(source, feed)[0], rtol=1e-4, atol=1e-4
        )
