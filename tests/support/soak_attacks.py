# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An attack that goes wrong in every way that the driver of attacks has to survive."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from tools.soak.attack import BrokenError, Budget, Result, attempt


def judge(case: bytes) -> Iterator[str]:
    """Do what the case says."""
    yield "read"
    match case.decode():
        case "broken":
            raise BrokenError("a promise")
        case "foreign":
            raise ZeroDivisionError("not ours")
        case "crash":
            os.abort()
        case "hang":
            time.sleep(600)
    yield "good"


def run(budget: Budget, seed: int) -> Result:
    """Try the case that the seed stands for."""
    found = Result()
    for _ in budget.rounds(found):
        cases = (b"good", b"broken", b"foreign", b"crash", b"hang")
        attempt(found, budget, cases[seed % 1000], judge)
    return found


def replay(budget: Budget, case: bytes) -> Result:
    """Try a case once more."""
    found = Result()
    attempt(found, budget, case, judge)
    return found
