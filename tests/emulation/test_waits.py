# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The counters of memory accesses against a model of single waves."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest
from hipdnn_iree.emulation.errors import EmulationError
from hipdnn_iree.emulation.waits import LGKM, VM, Ticket, Waits
from numpy.typing import NDArray

WAVES = 3
# Counters and whether it returns in order: vector memory, LDS, scalar and flat loads.
_ACCESSES = [((VM,), True), ((LGKM,), True), ((LGKM,), False), ((VM, LGKM), False)]


@dataclass
class _Access:
    """What one wave has asked for, with the counters that no wait has passed."""

    ticket: Ticket
    left: set[int]


def _wait(accesses: list[_Access], limits: tuple[int, int]) -> None:
    """Let one wave wait; nothing says which accesses are left while one may return at any time."""
    for kind, limit in enumerate(limits):
        counted = [access for access in accesses if kind in access.ticket.kinds]
        unordered = any(access.left and not access.ticket.ordered for access in counted)
        if limit == 0 or (limit > 0 and not unordered):
            for access in counted[: len(counted) - limit]:
                access.left.discard(kind)


def _some(dice: random.Random, together: float) -> tuple[list[int], NDArray[np.bool_] | None]:
    """Return waves, also as they are given: None stands for all, as does a mask of all."""
    if dice.random() < together:
        return list(range(WAVES)), None
    chosen = dice.sample(range(WAVES), dice.randint(1, WAVES))
    return chosen, np.isin(np.arange(WAVES), chosen)


@pytest.mark.parametrize("together", [1.0, 0.9, 0.3])
def test_counters_are_those_of_each_wave(together: float) -> None:
    dice, waits, late = random.Random(7), Waits(WAVES), 0
    for _ in range(20):  # batches of workgroups, by the same counters
        waits.reset()
        model: list[list[_Access]] = [[] for _ in range(WAVES)]
        tickets: list[Ticket] = []
        for step in range(40):
            chosen, active = _some(dice, together)
            if dice.random() < 0.6:
                kinds, ordered = dice.choice(_ACCESSES)
                given = None if active is None else active.copy()
                ticket = waits.issue(kinds, ordered, given, frozenset([step]), "a load")
                if given is not None:
                    given[:] = False  # the scheduler's own, which changes
                tickets.append(ticket)
                for wave in chosen:
                    model[wave].append(_Access(ticket, set(kinds)))
            else:
                limits = dice.choice([(0, -1), (-1, 0), (0, 0), (1, -1), (-1, 2), (2, 1)])
                waits.wait(limits, active)
                for wave in chosen:
                    _wait(model[wave], limits)
            for ticket in tickets:
                expected = [any(a.left for a in m if a.ticket is ticket) for m in model]
                assert np.broadcast_to(waits.outstanding(ticket), WAVES).tolist() == expected
                assert (ticket in waits.open) == any(expected)
                (register,) = ticket.registers
                assert (register in waits.pending) == any(expected)
            if tickets:
                late += _used(waits, dice.choice(tickets), model, *_some(dice, together))
    assert 100 < late < 700  # accesses that were and that were not waited for are both used


def _used(
    waits: Waits,
    ticket: Ticket,
    model: list[list[_Access]],
    chosen: list[int],
    active: NDArray[np.bool_] | None,
) -> bool:
    """Have waves read what an access writes; return whether that is an error, as it must be."""
    wrong = any(a.left for wave in chosen for a in model[wave] if a.ticket is ticket)
    if wrong:
        with pytest.raises(EmulationError, match=r"missing s_waitcnt: v[0-9]+ is read before"):
            waits.use(ticket.registers, frozenset(), (), False, active)
    else:
        waits.use(ticket.registers, frozenset(), (), False, active)
    return wrong
