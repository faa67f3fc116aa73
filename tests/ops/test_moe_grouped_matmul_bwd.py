# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The gradient of a mixture of experts: a transpose, rows of no expert, rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import GraphError
from hipdnn_iree.provider.reference import execute

Run = Callable[..., Any]
ROWS, EXPERTS, WIDTH, OUT = 8, 4, 6, 5


def gradient(groups: int = EXPERTS) -> tuple[Graph, list[Any], Any]:
    g = Graph(io_data_type="float")
    dy, x = g.tensor(dims=(1, ROWS, OUT)), g.tensor(dims=(1, ROWS, WIDTH))
    offsets = g.tensor(dims=(groups, 1, 1), data_type="int32")
    dw = g.moe_grouped_matmul_bwd(dy, x, offsets, dweight_dims=(EXPERTS, WIDTH, OUT))
    return g, [dy, x, offsets], dw.set_output()


def random_values(offsets: list[int]) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(1)
    return [
        rng.standard_normal((1, ROWS, OUT)).astype(np.float32),
        rng.standard_normal((1, ROWS, WIDTH)).astype(np.float32),
        np.array(offsets, np.int32).reshape(-1, 1, 1),
    ]


def test_it_is_the_transpose_of_the_product() -> None:
    # <token·W, dy> = <W, dW> for every W, as the product is linear in the weights.
    g, tensors, dw = gradient(2 * EXPERTS)
    dy, x, offsets = values = random_values([1, 2, 2, 3, 5, 6, 7, 8])
    got = execute(g.freeze(), {t.uid: v for t, v in zip(tensors, values, strict=True)})[dw.uid]
    forward = Graph(io_data_type="float")
    weight = np.random.default_rng(2).standard_normal((EXPERTS, WIDTH, OUT)).astype(np.float32)
    given = [(forward.tensor(dims=v.shape), v) for v in (x, weight)]
    given.append((forward.tensor(dims=offsets.shape, data_type="int32"), offsets))
    y = forward.moe_grouped_matmul(*(t for t, _ in given)).set_output()
    product = execute(forward.freeze(), {t.uid: v for t, v in given})[y.uid]
    np.testing.assert_allclose((product * dy).sum(), (got * weight).sum(), rtol=1e-12)
    assert dw.strides == (WIDTH * OUT, 1, WIDTH)  # hipDNN's layout of weights


def test_rows_of_no_expert_do_not_matter_whatever_they_are(run: Run) -> None:
    g, tensors, _ = gradient()
    dy, x, offsets = random_values([2, 4, 4, 4])
    dy[0, :2], x[0, 1:2] = np.nan, np.inf
    (got,) = run(g, dict(zip(tensors, (dy, x, offsets), strict=True)))
    expected = np.zeros((EXPERTS, WIDTH, OUT))
    expected[0] = x[0, 2:4].T @ dy[0, 2:4]
    expected[3] = x[0, 4:].T @ dy[0, 4:]
    np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize(
    ("rule", "doutput", "dweight", "said"),
    [
        ("MOEBWD-01", (1, 8, 5), None, "dweight: got no dims; wanted (experts, in, out)"),
        ("MOE-01", (1, 8, 5), (6, 5), "dweight: got dims [6, 5]"),
        ("MOE-02", (1, 7, 5), (4, 6, 5), "doutput: got 7 rows; wanted 8, as token"),
        ("MOE-02", (1, 8, 5), (4, 5, 6), "dweight: got dims[1:] = [5, 6]; wanted [6, 5]"),
        ("MOE-03", (1, 8, 5), (3, 6, 5), "multiple of the 3 experts"),
    ],
)
def test_rules(rule: str, doutput: Any, dweight: Any, said: str) -> None:
    g = Graph(io_data_type="float")
    token, dy = g.tensor(dims=(1, 8, 6)), g.tensor(dims=doutput)
    offsets = g.tensor(dims=(4, 1, 1), data_type="int32")
    g.moe_grouped_matmul_bwd(dy, token, offsets, dweight_dims=dweight).set_output()
    with pytest.raises(GraphError) as caught:
        g.validate()
    found = [p for p in caught.value.problems if p.rule == rule]
    assert found, caught.value
    assert said in f"{found[0].port}: got {found[0].got}; wanted {found[0].wanted}"
