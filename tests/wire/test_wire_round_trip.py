# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every op, every sample problem, both eras: what is written is read back as the same graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.errors import FormatError
from hipdnn_iree.graph_api.formats.flatbuffer.decode import decode
from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode
from hipdnn_iree.graph_api.formats.flatbuffer.hipdnn_tables import NODE_N25
from hipdnn_iree.graph_api.formats.flatbuffer.node_tables import NODE_TABLES, OPS_BY_CODE, held
from hipdnn_iree.graph_api.formats.flatbuffer.schema_types import Era
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.graph_api.ops import OPS
from hipdnn_iree.graph_api.ops.base import Op
from hipdnn_iree.provider.sweep.samples import sample_problems
from hipdnn_iree.provider.sweep.suite import Case

N25_OPS = {
    *("batchnorm", "batchnorm_backward", "batchnorm_inference"),
    *("conv_dgrad", "conv_fprop", "conv_wgrad", "pointwise"),
}
N25_TYPES = {"float", "half", "bfloat16", "double", "uint8", "int32"}
ON_THE_WIRE = [name for name, op in OPS.items() if op.WIRE_CODE is not None]

# hipDNN's tables, copied once more, from another page than those of the code: `?` marks what may
# be missing, `[` a vector.
FIELDS = {
    "ConvolutionFwdAttributes": "x w y pre_padding[ post_padding[ stride[ dilation[ conv_mode",
    "ConvolutionBwdAttributes": "dy w dx pre_padding[ post_padding[ stride[ dilation[ conv_mode",
    "ConvolutionWrwAttributes": "x dy dw pre_padding[ post_padding[ stride[ dilation[ conv_mode",
    "BatchnormInferenceAttributes": "x mean inv_variance scale bias y",
    "BatchnormInferenceAttributesVarianceExt": "x mean variance scale bias y epsilon",
    "BatchnormAttributes": "x scale bias epsilon peer_stats[ prev_running_mean? "
    "prev_running_variance? momentum? y mean? inv_variance? next_running_mean? "
    "next_running_variance?",
    "BatchnormBackwardAttributes": "dy x mean? inv_variance? scale peer_stats[ dx dscale dbias",
    "PointwiseAttributes": "operation relu_lower_clip? relu_upper_clip? relu_lower_clip_slope? "
    "axis? in_0 in_1? in_2? out_0 swish_beta? elu_alpha? softplus_beta?",
    "MatmulAttributes": "a b c",
    "ReductionAttributes": "mode in out is_deterministic",
    "RMSNormAttributes": "x scale epsilon y bias? inv_rms? forward_phase",
    "RMSNormBackwardAttributes": "dy x scale inv_rms dx dscale dbias?",
    "LayernormAttributes": "x scale bias epsilon y normalized_dim_count mean? inv_variance? "
    "forward_phase",
    "LayernormBackwardAttributes": "dy x scale mean? inv_variance? epsilon? dx dscale dbias "
    "normalized_dim_count",
    "BlockScaleDequantizeAttributes": "x scale y block_size[ is_negative_scale",
    "BlockScaleQuantizeAttributes": "x y scale block_size? axis? transpose",
    "CustomOpAttributes": "custom_op_id input_tensor_uids[ output_tensor_uids[ data[",
    "ResampleFwdAttributes": "x y index? pre_padding[ post_padding[ stride[ window[ "
    "resample_mode padding_mode generate_index?",
    "ResampleBwdAttributes": "dy dx index? pre_padding[ post_padding[ stride[ window[ "
    "resample_mode padding_mode",
    "MoeGroupedMatmulAttributes": "token weight first_token_offset token_index? token_ks? output "
    "mode top_k",
    "MoeGroupedMatmulBwdAttributes": "doutput token first_token_offset dweight",
    "SdpaAttributes": "q k v o attn_mask? scale? seq_len_q? seq_len_kv? seed? offset? "
    "dropout_mask? dropout_scale? page_table_k? page_table_v? block_mask? sink_token? descale_q? "
    "descale_k? descale_v? descale_s? scale_s? scale_o? stats? max? sum_exp? rng_dump? amax_s? "
    "amax_o? generate_stats? alibi_mask padding_mask causal_mask causal_mask_bottom_right "
    "dropout_probability? attn_scale_value? left_bound? right_bound? max_seq_len_kv? "
    "diagonal_alignment mma_core_mode implementation",
    "SdpaBackwardAttributes": "q k v o do stats dq dk dv scale? attn_mask? seq_len_q? seq_len_kv? "
    "seed? offset? dropout_mask? dropout_scale? dropout_scale_inv? dbias? alibi_mask padding_mask "
    "causal_mask causal_mask_bottom_right dropout_probability? attn_scale_value? left_bound? "
    "right_bound? diagonal_alignment",
}


def parts(graph: FrozenGraph) -> Any:
    """Return all that a graph holds but the labels made for nodes without a name."""
    return (
        (graph.name, graph.inputs, graph.outputs, graph.is_override_shape_enabled),
        (graph.io_data_type, graph.intermediate_data_type, graph.preferred_engine_id),
        dict(graph.tensors),
        [(n.name, n.op, n.inputs, n.outputs, n.compute_data_type) for n in graph.nodes],
    )


def served(graph: FrozenGraph) -> bool:
    """Whether hipDNN has a node for every op (reshape and its like have none), as it is."""
    return all(n.op.WIRE_CODE and not said_by_us(n.op) for n in graph.nodes)


def said_by_us(op: Op) -> bool:
    """Whether an op has a parameter that hipDNN has no field for."""
    return any(
        field.assumed is not None and getattr(op, field.name) not in (None, field.assumed)
        for field in op.FIELDS
    )


def fits_n25(graph: FrozenGraph) -> bool:
    """Whether the format of November 2025 has what the graph needs."""
    return (
        {n.op.NAME for n in graph.nodes} <= N25_OPS
        and {t.data_type.json for t in graph.tensors.values()} <= N25_TYPES
        and len({n.compute_data_type for n in graph.nodes}) == 1
        and not any(t.runtime_scalar for t in graph.tensors.values())
    )


def by_op() -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for sample in sample_problems():
        found.setdefault(sample.name.partition(".")[0], []).append(sample)
    return found


SAMPLES = by_op()


@pytest.mark.parametrize("op", SAMPLES)
def test_every_sample_problem(op: str) -> None:
    count = 0
    for sample in SAMPLES[op]:
        for data_type in sample.dtypes:
            graph = sample.graph(data_type).freeze()
            if not served(graph):
                with pytest.raises(FormatError, match="WIRE-13"):
                    encode(graph)
                continue
            again = decode(encode(graph), Graph, inv_variance="inverse").graph.freeze()
            assert again == graph, sample.name
            assert parts(again) == parts(graph), sample.name
            count += 1
            if fits_n25(graph):
                data = encode(graph, Era.N25, inv_variance="inverse")
                found = decode(data, Graph, inv_variance="inverse")
                assert found.era is Era.N25
                assert found.graph.freeze() == graph, sample.name
                assert parts(found.graph.freeze()) == parts(graph), sample.name
            else:
                with pytest.raises(FormatError, match="WIRE-13"):
                    encode(graph, Era.N25, inv_variance="inverse")
    assert count or op not in ON_THE_WIRE


def test_the_samples_reach_every_op_of_the_wire() -> None:
    seen = {n.op.NAME for s in sample_problems() for n in s.graph(s.dtypes[0]).freeze().nodes}
    # Nothing can verify samples of custom ops; tests/ops/test_custom_op.py writes and reads one.
    assert set(ON_THE_WIRE) - {"custom_op"} <= seen


@pytest.mark.parametrize("code", OPS_BY_CODE)
def test_fields_are_those_of_hipdnn(code: int) -> None:
    table = NODE_TABLES[code]
    slots = [slot for slot in table.slots if not slot.note]
    words = FIELDS[table.name].split()
    assert [slot.id for slot in slots] == list(range(len(words)))
    for slot, word in zip(slots, words, strict=True):
        name = word.rstrip("?[")
        assert slot.name in (name, f"{name}_tensor_uid")
        assert (slot.default is None) == (word[-1] in "?[") or name == "custom_op_id"
        assert slot.kind.value.startswith("vector") == word.endswith("[")


@pytest.mark.parametrize("op", ON_THE_WIRE)
def test_every_port_and_parameter_has_one_field(op: str) -> None:
    kind = OPS[op]
    names = [field.name for field in kind.FIELDS]
    assert len(names) == len(set(names))
    ports = {port.name for port in (*kind.INPUTS, *kind.OUTPUTS)}
    assert ports <= set(names)
    assert set(names) - ports <= {f.name for f in fields(kind)}
    assert len(held(kind)) == len([s for s in NODE_TABLES[kind.WIRE_CODE or 0].slots if not s.note])


# ---------------------------------------------------------------------------- single fields


def small(**types: str) -> Graph:
    graph = Graph("g", io_data_type="float", **types)
    graph.output(graph.relu(graph.tensor(dims=(2, 3), name="x", uid=1)), name="y")
    return graph


def same(graph: Graph, era: Era = Era.NODE) -> FrozenGraph:
    frozen = graph.freeze()
    again = decode(encode(frozen, era), Graph).graph.freeze()
    assert parts(again) == parts(frozen)
    return again


def test_fields_of_the_graph() -> None:
    graph = small(compute_data_type="double", intermediate_data_type="half")
    graph.preferred_engine_id = -3193037706610614382
    graph.is_override_shape_enabled = True
    found = same(graph)
    assert found.preferred_engine_id == graph.preferred_engine_id
    assert found.is_override_shape_enabled
    assert found.compute_data_type is DataType.DOUBLE


def test_an_id_is_kept_and_is_no_part_of_the_graph() -> None:
    frozen = small().freeze()
    marked = encode(frozen, id=bytes(range(16)))
    found = decode(marked, Graph)
    assert found.id == bytes(range(16))
    assert found.graph.freeze().digest == frozen.digest
    assert decode(encode(frozen), Graph).id is None
    assert decode(encode(frozen, Era.N25, id=bytes(16)), Graph).id is None


@pytest.mark.parametrize("uid", [0, -1, 2**62, -(2**63), 2**63 - 1])
def test_uids_of_any_kind(uid: int) -> None:
    graph = Graph(io_data_type="float")
    graph.output(graph.neg(graph.tensor(dims=(2,), uid=uid)))
    for era in Era:
        assert uid in same(graph, era).tensors


@pytest.mark.parametrize("name", ["", "x", "ünï 'quoted' \n\t", "🔥" * 40, "a\0b", "x" * 10_000])
def test_names_of_any_kind(name: str) -> None:
    graph = Graph(name, io_data_type="float")
    x = graph.tensor(dims=(2,), name=name)
    graph.output(graph.relu(x, name=name), name=name)
    for era in Era:
        same(graph, era)


@pytest.mark.parametrize(
    ("change", "version"),
    [
        (lambda g: None, (1, 0, 0)),
        (lambda g: setattr(g, "is_override_shape_enabled", True), (1, 1, 0)),
        (lambda g: setattr(g.tensors[0], "alignment", 256), (1, 3, 0)),
    ],
)
def test_a_graph_asks_for_no_newer_engine_api_than_it_needs(
    change: Callable[[Graph], None], version: tuple[int, int, int]
) -> None:
    graph = small()
    change(graph)
    assert decode(encode(graph.freeze()), Graph).required_api == version


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        *(("float", v) for v in (0.0, -0.0, 0.1, 1e-45, 3.4e38, math.inf, -math.inf)),
        *(("double", v) for v in (0.1, 1e300, 5e-324, -math.inf)),
        *(("half", v) for v in (0.333, 65504.0, 6e-8, math.inf)),
        *(("bfloat16", v) for v in (0.25, 3.3e38)),
        *(("int32", v) for v in (0, -(2**31), 2**31 - 1)),
        *(("int64", v) for v in (0, -(2**63), 2**63 - 1)),
        *(("int8", -128), ("uint8", 255), ("boolean", True), ("boolean", False)),
        *(("fp8_e4m3", v) for v in (0.0, -0.0, 448.0, -0.0625, 2.0**-9)),
        *(("fp8_e5m2", v) for v in (57344.0, math.inf, 2.0**-16)),
        *(("fp8_e8m0", v) for v in (1.0, 2.0**-127, 2.0**127)),
        *(("fp8_e4m3_fnuz", v) for v in (0.0, 240.0)),
    ],
)
def test_scalars(data_type: str, value: Any) -> None:
    graph = Graph(io_data_type="float", compute_data_type="float")
    x = graph.tensor(dims=(2,), uid=1)
    s = graph.scalar(value, data_type=data_type, uid=2)
    graph.output(graph.mul(x, s))
    found = same(graph).tensors[2]
    assert type(found.value) is type(value)
    assert repr(found.value) == repr(graph.freeze().tensors[2].value)


@pytest.mark.parametrize("value", [None, 2.5])
def test_scalars_read_at_execution(value: float | None) -> None:
    """With a value (which is then baked in) and without; the old form has none of them."""
    graph = Graph(io_data_type="float", compute_data_type="float")
    s = graph.tensor(dims=(1,), uid=2)
    s.runtime_scalar, s.value = True, value
    graph.output(graph.mul(graph.tensor(dims=(2,), uid=1), s))
    found = same(graph)
    assert (found.tensors[2].runtime_scalar, found.tensors[2].value) == (True, value)
    assert decode(encode(found), Graph).required_api == (1, 2, 0)
    with pytest.raises(FormatError, match=r"is_runtime_pass_by_value.*WIRE-13"):
        encode(found, Era.N25)


def test_dynamic_dims_have_no_place_in_hipdnns_graphs() -> None:
    graph = Graph(io_data_type="float", compute_data_type="float")
    n = graph.dynamic("n", range=(1, 64), example=8)
    graph.output(graph.relu(graph.tensor(dims=(n, 3))))
    for era in Era:
        with pytest.raises(FormatError, match=r"WIRE-13.*dynamic dims n"):
            encode(graph.freeze(), era)


def test_ragged_offsets() -> None:
    graph = Graph(io_data_type="float", compute_data_type="float")
    x = graph.tensor(dims=(2, 3), uid=1)
    x.ragged_offset_uid = graph.tensor(dims=(3, 1), data_type="int32", uid=9).uid
    graph.output(graph.relu(x))
    found = same(graph)
    assert found.tensors[1].ragged_offset_uid == 9
    assert decode(encode(found), Graph).required_api == (1, 3, 0)


def test_a_scalar_that_is_not_a_number() -> None:
    graph = Graph(io_data_type="float", compute_data_type="float")
    x = graph.tensor(dims=(2,), uid=1)
    for uid, kind in enumerate(("float", "half", "double", "fp8_e5m2", "fp8_e4m3"), 2):
        x = graph.mul(x, graph.scalar(math.nan, data_type=kind, uid=uid))
    graph.output(x)
    found = decode(encode(graph.freeze()), Graph).graph.freeze()
    assert all(math.isnan(found.tensors[uid].value) for uid in range(2, 7))


def test_every_byte_of_every_8_bit_float() -> None:
    """Read, written and read again: the same number."""
    from hipdnn_iree.graph_api.values import from_byte

    for kind in (t for t in DataType if t.is_float and t.bits == 8):
        for byte in range(256):
            value = from_byte(byte, kind)
            graph = Graph(io_data_type="float", compute_data_type="float")
            s = graph.scalar(value, data_type=kind, uid=2)
            graph.output(graph.mul(graph.tensor(dims=(2,), uid=1), s))
            found = decode(encode(graph.freeze()), Graph).graph.tensors
            (again,) = (t.value for t in found if t.value is not None)
            assert repr(again) == repr(value), (kind, byte)


def test_nodes_of_several_types_in_the_old_form() -> None:
    """It has no type of the node: all have that of the graph, whatever the graph said."""
    graph = Graph(io_data_type="float")
    x = graph.tensor(dims=(2, 3))
    graph.output(graph.neg(graph.relu(x, compute_data_type="double"), compute_data_type="double"))
    frozen = graph.freeze()
    found = decode(encode(frozen, Era.N25), Graph)
    assert found.graph.freeze() == frozen
    assert found.graph.compute_data_type is DataType.DOUBLE

    mixed = Graph(io_data_type="float")
    x = mixed.tensor(dims=(2, 3))
    mixed.output(mixed.neg(mixed.relu(x, compute_data_type="double"), compute_data_type="float"))
    with pytest.raises(FormatError, match="one type for all nodes"):
        encode(mixed.freeze(), Era.N25)
    assert parts(decode(encode(mixed.freeze()), Graph).graph.freeze()) == parts(mixed.freeze())


def test_the_old_form_of_batch_normalisation_with_a_variance() -> None:
    """The op with a variance fits into the old form exactly when its epsilon is the old one's."""
    for epsilon, fits in ((1e-5, True), (1e-3, False)):
        graph = Graph(io_data_type="float", compute_data_type="float")
        x = graph.tensor(dims=(2, 3, 4, 4))
        mean, variance, scale, bias = (graph.tensor(dims=(1, 3, 1, 1)) for _ in range(4))
        eps = graph.scalar(epsilon, data_type="double")
        y = graph.batchnorm_inference_variance_ext(x, mean, variance, scale, bias, epsilon=eps)
        graph.output(y)
        frozen = graph.freeze()
        if fits:
            data = encode(frozen, Era.N25)
            assert decode(data, Graph).graph.freeze() == frozen
        else:
            with pytest.raises(FormatError, match="WIRE-13"):
                encode(frozen, Era.N25)


def test_a_graph_with_the_inverse_is_refused_to_a_reader_that_takes_a_variance() -> None:
    graph = Graph(io_data_type="float", compute_data_type="float")
    x = graph.tensor(dims=(2, 3, 4, 4))
    rest = [graph.tensor(dims=(1, 3, 1, 1)) for _ in range(4)]
    graph.output(graph.batchnorm_inference(x, *rest))
    with pytest.raises(FormatError, match="inverse standard deviation"):
        encode(graph.freeze(), Era.N25)
    with pytest.raises(FormatError, match="inverse standard deviation"):
        encode(graph.freeze(), Era.NODE, inv_variance="variance")
    assert decode(encode(graph.freeze()), Graph).graph.freeze() == graph.freeze()
    with pytest.raises(ValueError, match="allowed: auto, inverse, variance"):
        encode(graph.freeze(), inv_variance="inverted")


def test_the_older_node_has_the_shorter_table() -> None:
    assert [s.name for s in NODE_N25.slots] == ["name", "attributes"]
    assert NODE_N25.slots[1].id == 2
