# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Controls: compiled kernels that are right are not accused, changed ones are caught."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from compiled_product import DEPTH, Product
from graph_rows import row_of_graph
from hipdnn_iree.emulation.errors import EmulationError
from hipdnn_iree.emulation.instruction import Instruction
from hipdnn_iree.emulation.program import Program
from hipdnn_iree.provider.sweep.samples import few_of, sample_problems


@pytest.fixture(scope="module", params=["gfx90a", "gfx942"])
def product(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Product:
    return Product(request.param, tmp_path_factory.mktemp(request.param))


def test_what_is_right_is_not_accused(product: Product) -> None:
    exact = product.a.astype(np.float64) @ product.b.astype(np.float64)
    scale = np.abs(product.a.astype(np.float64)) @ np.abs(product.b.astype(np.float64))
    bound = 2.0**-11 * np.abs(exact) + DEPTH * 2.0**-23 * scale + 2.0**-24
    assert (np.abs(product.run(product.program) - exact) <= bound).all()


_OTHER = {
    "v_add_u32": "v_sub_u32",
    "v_lshlrev_b32": "v_lshrrev_b32",
    "v_and_b32": "v_or_b32",
    "v_or_b32": "v_and_b32",
    "v_mul_u32_u24": "v_add_u32",
    "v_lshl_or_b32": "v_lshl_add_u32",
    "v_lshl_add_u32": "v_lshl_or_b32",
    "v_perm_b32": "v_bfi_b32",
    "s_add_u32": "s_sub_u32",
    "s_mul_i32": "s_add_i32",
}


def _dropped(program: Program, i: Instruction) -> Program:
    nop = replace(i, mnemonic="s_nop", encoding="sopp", operands=(), modifiers={})
    return replace(program, instructions={**program.instructions, i.address: nop})


def _changed(program: Program, i: Instruction, dice: random.Random) -> Program:
    if i.encoding in ("ds", "mubuf", "global"):
        name = "offset0" if "2" in i.mnemonic.split("_")[1] else "offset"
        step = 1 if name == "offset0" else 4
        new = replace(i, modifiers={**i.modifiers, name: int(i.modifiers.get(name, 0)) + step})
    elif i.mnemonic in _OTHER and dice.random() < 0.5:
        new = replace(i, mnemonic=_OTHER[i.mnemonic])
    else:
        places = [k for k, o in enumerate(i.operands) if k and o.file in "va"]
        place = dice.choice(places)
        other = replace(i.operands[place], index=i.operands[place].index ^ 1)
        operands = [other if k == place else o for k, o in enumerate(i.operands)]
        new = replace(i, operands=tuple(operands))
    return replace(program, instructions={**program.instructions, i.address: new})


def _mutants(program: Program, count: int, seed: int) -> list[tuple[Instruction, Program]]:
    """Change or drop one instruction each; the last barrier, after which nothing comes, stays."""
    dice = random.Random(seed)
    code = list(program.instructions.values())
    last = max((i.address for i in code if i.mnemonic == "s_barrier"), default=-1)
    after = [i for i in code if i.address > last and i.encoding in ("ds", "mubuf", "global")]

    def some(of: Callable[[Instruction], bool]) -> list[Instruction]:
        return [i for i in code if of(i)]

    drops = [
        some(lambda i: "store" in i.mnemonic or i.mnemonic.startswith("ds_write")),
        some(lambda i: i.mnemonic == "s_barrier" and (i.address != last or bool(after))),
        some(lambda i: i.mnemonic == "s_waitcnt"),
    ]
    changes = some(
        lambda i: (
            i.encoding in ("ds", "mubuf", "global")
            or (i.mnemonic[0] == "v" and any(o.file in "va" for o in i.operands[1:]))
        )
    )
    found = []
    for number in range(count):
        pool = (*drops, changes, changes, changes)[number % 6]
        chosen = dice.choice(pool or changes)
        kept = pool is changes or not pool
        found.append(
            (chosen, _changed(program, chosen, dice) if kept else _dropped(program, chosen))
        )
    return found


def _caught(product: Product, program: Program, right: np.ndarray) -> bool:
    try:
        return not np.array_equal(product.run(program), right)
    except EmulationError:
        return True


def _check(product: Product, count: int, seed: int) -> None:
    right = product.run(product.program)
    missed = [
        i
        for i, mutant in _mutants(product.program, count, seed)
        if not _caught(product, mutant, right)
    ]
    dropped = [
        i for i in missed if i.mnemonic in ("s_barrier", "s_waitcnt") or "store" in i.mnemonic
    ]
    assert not dropped
    assert len(missed) <= count // 10, [(hex(i.address), i.mnemonic, i.operands) for i in missed]


def test_changed_kernels_are_caught(product: Product) -> None:
    _check(product, 24, 1)


@pytest.mark.full
def test_many_untouched_kernels_are_not_accused() -> None:
    """Of samples of all ops; a sweep of `ops` has more."""
    launched, bad = 0, list[tuple[str, str]]()
    for number, sample in enumerate(few_of(sample_problems())):
        arch, graph = ("gfx90a", "gfx942", "gfx950")[number % 3], sample.freeze()
        row = row_of_graph(graph, target=arch, emulate=True, instructions=True)
        if row["status"] not in ("ok", "declined"):
            bad.append((sample.name, row["detail"]))
        launched += row.get("instructions", {}).get("launched", 0)
        if launched >= 200:
            break
    assert not bad
    assert launched >= 200


@pytest.mark.full
def test_many_changed_kernels_are_caught(product: Product) -> None:
    _check(product, 200, 2)
