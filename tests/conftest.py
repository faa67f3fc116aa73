# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What holds for every test: no settings of the user and an own cache."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import hypothesis
import pytest

_RUN_DIR = pytest.StashKey[Path]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--full``: every sample problem in every data type, about ten minutes on two cores."""
    parser.addoption("--full", action="store_true", help="also run the tests marked 'full'")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked ``full``, unless asked for; what is ``slow`` comes first.

    At the end of a run on several cores, only short tests are then left to wait for.
    """
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    if config.getoption("--full"):
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


def pytest_configure(config: pytest.Config) -> None:
    """Start without settings from outside; all processes of a run share one fresh cache."""
    worker_input = getattr(config, "workerinput", None)
    if worker_input is None:
        run_dir = Path(tempfile.mkdtemp(prefix="hipdnn-iree-tests-"))
        config.add_cleanup(lambda: shutil.rmtree(run_dir, ignore_errors=True))
    else:
        run_dir = Path(worker_input["run_dir"])
    config.stash[_RUN_DIR] = run_dir
    for name in [n for n in os.environ if n.startswith(("HIPDNN_IREE_", "HIPDNN_HEUR_"))]:
        del os.environ[name]
    os.environ["HIPDNN_IREE_CACHE_DIR"] = str(run_dir / "cache")
    # A run in the background of a shell ignores SIGINT, and so would every host that is tested.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Other work on the machine is no reason to fail.
    slow = [hypothesis.HealthCheck.too_slow]
    hypothesis.settings.register_profile("any_speed", deadline=None, suppress_health_check=slow)
    hypothesis.settings.load_profile("any_speed")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist which run it belongs to."""
    node.workerinput["run_dir"] = str(node.config.stash[_RUN_DIR])


@pytest.fixture
def until() -> Callable[[Callable[[], object]], None]:
    """Return a function that waits until a condition holds, however slow the machine is.

    It gives up after two minutes, for what never comes.
    """

    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline, "it did not happen"
            time.sleep(0.005)

    return wait


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGINT interrupt, here and in child processes.

    A shell without job control lets programs in the background ignore it (``pytest &``), and so
    do their children.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def users_of() -> Callable[[Path, int], int]:
    """Return a function that counts how often a process has a file, or files of a folder, open.

    A process that waits for the lock of a file has it open.
    """

    def count(path: Path, pid: int) -> int:
        found = 0
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                target = entry.readlink()
                found += target == path or path in target.parents
        return found

    return count


@pytest.fixture
def steps() -> Callable[[Callable[[], object]], int]:
    """Return a function that counts the calls, also of built-in functions, that a call makes.

    A measure of work that does not depend on the machine nor on what else it does.
    """

    def count(call: Callable[[], object]) -> int:
        found = 0

        def note(frame: object, event: str, argument: object) -> None:
            nonlocal found
            found += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            call()
        finally:
            sys.setprofile(before)
        return found

    return count


@pytest.fixture
def ends() -> Callable[[], AbstractContextManager[None]]:
    """Return a context manager for work that damaged input must not make endless.

    Its limit, 60 seconds of CPU time, is far above what any machine takes, and far below what
    the work would take if it grew with the square of the input.
    """

    @contextmanager
    def limit() -> Iterator[None]:
        begin = time.process_time()
        yield
        assert time.process_time() - begin < 60

    return limit
