"""What holds for every test: no settings of the user, an own cache, and quiet while timing."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_RUN_DIR = pytest.StashKey[Path]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--full``: every sample problem in every data type, about ten minutes on two cores."""
    parser.addoption("--full", action="store_true", help="also run the tests marked 'full'")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked ``full``, unless asked for."""
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


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist which run it belongs to."""
    node.workerinput["run_dir"] = str(node.config.stash[_RUN_DIR])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let a test marked ``timing`` run while the other workers pause, so that it can be strict."""
    if not hasattr(item.config, "workerinput"):
        return (yield)
    run_dir, alone = item.config.stash[_RUN_DIR], item.get_closest_marker("timing") is not None
    # Who waits to be alone keeps the door, so that no other test slips in before it.
    room = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    with _locked(run_dir / "door", fcntl.LOCK_EX) as door, _locked(run_dir / "room", room):
        fcntl.flock(door, fcntl.LOCK_UN)
        return (yield)


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[int]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, kind)
        yield handle
    finally:
        # Said in words: a child that a test has forked may keep the file open.
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)
