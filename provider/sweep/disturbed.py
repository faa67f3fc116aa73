# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether something else kept the machine busy while a call was timed.

What else runs on a machine only ever adds time, to some rounds more than to others.  So times are
disturbed where the rounds differ widely, or where most of them never came near the best call.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..timing import Times
from .row import TimeFacts

__all__ = ["disturbed", "in_words"]

_SPREAD = 0.15
"""Half the distance of the quartiles of the rounds, relative to their median."""
_OFF = 2.0
"""The median of the rounds by the best call."""


def disturbed(times: TimeFacts) -> bool:
    """Return whether rounds differ so much that the median says little."""
    if not times.rounds_us:
        return False
    rounds = Times.of(times.rounds_us)
    return rounds.noise > _SPREAD or rounds.median > _OFF * times.best_us


def in_words(rows: int, timed: int, load: Sequence[float]) -> str:
    """Return a sentence on how many rows are disturbed, empty for none.

    Parameters
    ----------
    rows, timed : int
        Rows that are disturbed, and that have times.
    load : sequence of float
        Processes that wanted to run when each part of the run began.
    """
    if not rows:
        return ""
    busy = f" (load {', '.join(map(str, load))})" if load else ""
    return (
        f"{rows:,} of {timed:,} timed rows {'is' if rows == 1 else 'are'} disturbed: the quartiles "
        f"of the rounds lie over {_SPREAD:.0%} of the median from it, or the median is over "
        f"{_OFF:g} times the best call; something else kept the machine busy{busy}"
    )
