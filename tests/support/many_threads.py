# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Running one function in several threads at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run ``work(i)`` in threads that start together; raise what any of them raised."""
    barrier, failures = threading.Barrier(count), []

    def body(index: int) -> None:
        barrier.wait()
        try:
            work(index)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=body, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    if failures:
        raise failures[0]
