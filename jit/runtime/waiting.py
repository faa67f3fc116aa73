# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Waiting for worker threads without taking a core from them.

W-153: IREE wakes the thread that waits before it has left the semaphore, and that thread then spins
until it has.  Linux lets a thread that slept go before the one that wakes it, so where all cores
are busy it spins on the very core that the other one needs, until the next tick of the scheduler:
up to 4 ms.  A thread of the policy for batches does not go before others when it wakes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

__all__ = ["patient"]

P = ParamSpec("P")
R = TypeVar("R")


def patient(call: Callable[P, R]) -> Callable[P, R]:
    """Return the call, made by a thread that goes before no other one when it wakes.

    Only a thread of the default policy is changed, and for the call only: a program may have given
    its threads a policy of their own.  Where the system refuses the change, and on others than
    Linux, the call is made as it is.  Both changes together take 1.5 us.
    """
    if sys.platform != "linux":
        return call
    policy, change = os.sched_getscheduler, os.sched_setscheduler
    usual, batch, priority = os.SCHED_OTHER, os.SCHED_BATCH, os.sched_param(0)

    @wraps(call)
    def patiently(*args: P.args, **kwargs: P.kwargs) -> R:
        if policy(0) != usual:
            return call(*args, **kwargs)
        try:
            change(0, batch, priority)
        except OSError:  # such as by the rules of a container
            return call(*args, **kwargs)
        try:
            return call(*args, **kwargs)
        finally:
            change(0, usual, priority)

    return patiently
