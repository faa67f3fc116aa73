# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Start, end, threads and errors of the library in a host in C."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from broken_deployments import pythons, shared_library, stand_ins
from plugin_copies import copy_of

from tools.host.driver import ERAS

GRAPHS = Path(__file__).parents[1] / "data" / "opgraphs"
UNLISTED = {"HOST_BRIEF": "1", "HOST_UNLISTED": "1"}  # the threads start Python, not the listing


def data(name: str) -> bytes:
    return (GRAPHS / f"{name}.bin").read_bytes()


def chain() -> bytes:
    """Two products, which need a workspace for what is between them."""
    from hipdnn_iree import Graph
    from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode

    g = Graph("chain", io_data_type="float")
    a, b, c = (g.tensor(dims=(24, 24), name=name, uid=k) for k, name in enumerate("abc", 7))
    g.matmul(g.matmul(a, b), c).set_output().set_uid(-3)
    return encode(g.freeze())


@pytest.mark.parametrize("era", ERAS)
def test_eight_threads_start_it_at_once(host: Any, era: str) -> None:
    host.run("storm", era=era, env=UNLISTED)


@pytest.mark.slow
def test_handles_and_threads_leave_nothing_behind(host: Any) -> None:
    """480 threads that Python does not know, each with a thousand handles."""
    assert int(host.run("storm")["growth_kib"]) < 1024


@pytest.mark.parametrize("era", ERAS)
def test_loaded_and_unloaded_again(host: Any, era: str) -> None:
    assert host.run("reload", 200, era=era)["rounds"] == "200"


@pytest.mark.parametrize("era", ERAS)
def test_something_wrong_at_every_step(host: Any, make_job: Any, era: str) -> None:
    job = make_job(chain())
    facts = host.run("errors", *job.arguments, era=era)
    assert facts["checked"] == "yes"
    assert int(facts["workspace"]) > 0


def test_a_null_workspace_is_one_of_the_pool(host: Any, make_job: Any) -> None:
    """As AMD's programs for batch normalisation pass it; 8 sets of pointers, also misaligned."""
    job = make_job(chain())
    host.run("run", *job.arguments, 100, env={"HOST_NULL_WORKSPACE": "1"})
    job.verify()
    host.run("threads", *job.arguments, 200, 4, env={"HOST_NULL_WORKSPACE": "1"})


@pytest.mark.parametrize("delay_ms", [0, 150, 1500, -1])
def test_exit_with_work_in_flight(host: Any, make_job: Any, delay_ms: int) -> None:
    """Main returns while three threads start, plan or execute (-1: all three execute).

    Destructors that were registered last, as by variables of C++ at their first use, wait too.
    """
    job = make_job(data("pw_relu_all"))
    assert host.run("exit", *job.arguments, delay_ms, env=UNLISTED)["left"] == "yes"


@pytest.mark.parametrize("delay_ms", [0, 5, 100])
def test_python_of_the_host_ends_in_the_middle(
    host: Any, library: Path, tmp_path: Path, delay_ms: int
) -> None:
    """In a host in C that starts and ends Python itself, with threads that Python never saw."""
    copy = copy_of(library, tmp_path, path=stand_ins(tmp_path / "site"))
    own = Path(sys.base_prefix, "bin", f"python3.{sys.version_info[1]}")
    for python in {own.resolve(): own, **{p.resolve(): p for p in pythons()}}.values():
        shared = shared_library(python)
        if shared is not None:
            words, era = (shared, python, delay_ms), ERAS[delay_ms % 3]
            facts = host.run("embed", *words, era=era, library=copy, env=UNLISTED)
            assert facts["ended"] == "yes", python


def test_fork_after_the_start_is_told(host: Any) -> None:
    assert host.run("fork")["forked"] == "yes"


# ---------------------------------------------------------------------------- which Python


def test_copy_without_a_record_says_what_to_do(host: Any, library: Path, tmp_path: Path) -> None:
    facts = host.run("start", library=copy_of(library, tmp_path))
    assert facts["status"] == "3"
    assert "hipdnn-iree plugin install" in facts["error"]
    assert "HIPDNN_IREE_PYTHON" in facts["error"]


@pytest.mark.parametrize("how", ["others", "owner", "pipe"])
def test_a_record_that_somebody_else_may_have_written_is_not_read(
    host: Any, library: Path, tmp_path: Path, how: str
) -> None:
    """It names the Python, and so the code, that is started in the host."""
    copy = copy_of(library, tmp_path, python="/tmp/planted/bin/python3.11", version="3.11")
    record = Path(f"{copy}.python")
    assert "planted" in host.run("start", library=copy)["error"]
    if how == "others":
        record.chmod(0o666)
    elif how == "pipe":
        record.unlink()
        os.mkfifo(record)
    elif os.geteuid():
        pytest.skip("only root can give a file away")
    else:
        os.chown(record, 12345, 12345)
    facts = host.run("start", library=copy)
    assert facts["status"] == "3"
    assert facts["error"].startswith("DEPLOY-09: the record of the library's Python is not trusted")
    assert "planted" not in facts["error"]


def test_variable_names_the_python(host: Any, library: Path, tmp_path: Path) -> None:
    from hipdnn_iree.provider.native.library import read_record

    found = read_record(library)
    copy = copy_of(library, tmp_path, path=found.get("path", ""))
    assert (
        host.run("start", library=copy, env={"HIPDNN_IREE_PYTHON": sys.executable})["status"] == "0"
    )


@pytest.mark.parametrize("python", ["/nowhere/python3.11", "/" + "long/" * 1000])
def test_variable_that_names_no_python(host: Any, python: str) -> None:
    """The text blames the variable, and not the record or the place of the library."""
    facts = host.run("start", env={"HIPDNN_IREE_PYTHON": python})
    assert facts["status"] == "3"
    assert facts["error"].startswith("DEPLOY-12: HIPDNN_IREE_PYTHON names no Python that serves: ")


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (
            {"python": "/nowhere/bin/python3.11", "version": "3.11"},
            "the Python of the library is gone: /nowhere",
        ),
        ({"python": "/bin/sh"}, "cannot tell the version"),
        ({"python": "PREFIX/bin/python3.11"}, "no standard library at"),
        ({"python": sys.executable, "path": "/nowhere"}, "No module named 'hipdnn_iree'"),
    ],
)
def test_wrong_record(
    host: Any, library: Path, tmp_path: Path, record: dict[str, str], text: str
) -> None:
    """Python is never started so that it would end the process, and every call says no."""
    if "PREFIX" in record["python"]:
        (tmp_path / "bin").mkdir()
        shutil.copy("/bin/sh", tmp_path / "bin" / "python3.11")
        record = {"python": str(tmp_path / "bin" / "python3.11")}
    env = {}
    if record.get("path") == "/nowhere":
        # A Python of its own that does not have the package.
        env = {"HIPDNN_IREE_PYTHON": str(bare_environment(tmp_path))}
    facts = host.run("start", library=copy_of(library, tmp_path, **record), env=env)
    assert facts["status"] == "3"
    assert text in facts["error"]


def bare_environment(folder: Path) -> Path:
    import venv

    venv.create(folder / "bare", symlinks=True)
    return folder / "bare" / "bin" / "python"


@pytest.mark.parametrize("era", ERAS)
def test_installed_in_the_site_packages_of_an_environment(
    host: Any, library: Path, tmp_path: Path, era: str
) -> None:
    """Without a record: the place says which Python it is, and pyvenv.cfg where that is from."""
    from hipdnn_iree.jit.settings import settings
    from hipdnn_iree.provider.native.library import record

    bare_environment(tmp_path)
    (site,) = (tmp_path / "bare").glob("lib/python*/site-packages")
    package = dict(line.split(" = ") for line in record(settings()).splitlines())["path"]
    folders = [sysconfig.get_path("purelib"), package]
    (site / "borrowed.pth").write_text("\n".join(folders) + "\n")
    engines = site / "hipdnn_iree" / "hipdnn_plugin" / "engines"
    engines.mkdir(parents=True)
    copy = copy_of(library, engines)
    assert host.run("start", library=copy, era=era)["status"] == "0"
    link = tmp_path / "linked.so"  # in some other folder
    link.symlink_to(copy)
    assert host.run("start", library=link, era=era)["status"] == "0"


def test_one_binary_for_every_python(host: Any, library: Path, tmp_path: Path) -> None:
    """A handle needs the names of packages only, so a bare Python shows that it starts."""
    if not pythons():
        pytest.skip("no Python with a shared library beside the one that runs this")
    copy = copy_of(library, tmp_path, path=stand_ins(tmp_path / "site"))
    for python in pythons():
        env = {"HIPDNN_IREE_PYTHON": str(python), **UNLISTED}
        for era in ERAS:
            host.run("storm", era=era, library=copy, env=env)


def test_wrong_libpython(host: Any) -> None:
    facts = host.run("start", env={"HIPDNN_IREE_LIBPYTHON": "/nowhere/libpython3.11.so"})
    assert facts["status"] == "3"
    assert "HIPDNN_IREE_LIBPYTHON" in facts["error"]


def test_libpython_that_is_a_fifo_is_not_waited_for(host: Any, tmp_path: Path) -> None:
    """It hung: dlopen opens the file, and waits for somebody who writes."""
    fifo = tmp_path / "libpython3.so"
    os.mkfifo(fifo)
    facts = host.run("start", env={"HIPDNN_IREE_LIBPYTHON": str(fifo)})
    assert facts["status"] != "0"
    assert "HIPDNN_IREE_LIBPYTHON names no libpython that fits" in facts["error"]
    assert f"{fifo} is no file" in facts["error"]


def test_environment_of_the_host_does_not_matter(host: Any) -> None:
    env = {"PYTHONHOME": "/nowhere", "PYTHONPATH": "/nowhere", "PYTHONSTARTUP": "/nowhere"}
    assert host.run("start", env=env)["status"] == "0"


# ---------------------------------------------------------------------------- hosts with Python

PYTHON_HOST = """
import ctypes, sys, threading
lib = ctypes.CDLL(sys.argv[1], mode=int(sys.argv[2]))
def call():
    handle = ctypes.c_void_p()
    status = lib.hipdnnEnginePluginCreate(ctypes.byref(handle))
    text = ctypes.c_char_p()
    lib.hipdnnPluginGetLastErrorString(ctypes.byref(text))
    assert status == 0, (status, text.value)
    assert lib.hipdnnEnginePluginDestroy(handle) == 0
    return handle
threads = [threading.Thread(target=call) for _ in range(4)]
[t.start() for t in threads]
handle = call()
[t.join() for t in threads]
# Not while others make handles: one of them may have this address now.
assert lib.hipdnnEnginePluginDestroy(handle) == 1
import logging
assert logging.getLogger("hipdnn_iree").getEffectiveLevel() == logging.WARNING
print("done", "hipdnn_iree.hipdnn_plugin.entry" in sys.modules)
"""


@pytest.mark.parametrize("mode", [0, 8])  # RTLD_LOCAL, RTLD_DEEPBIND
def test_python_host_shares_its_interpreter(library: Path, tmp_path: Path, mode: int) -> None:
    """Also one whose executable is static, and one of another version than the library's own."""
    copy = copy_of(library, tmp_path, path=stand_ins(tmp_path / "site"))
    for python in (sys.executable, *pythons()):
        done = subprocess.run(
            [python, "-I", "-c", PYTHON_HOST, copy, str(2 | mode)],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "done True\n", ""), python


# ---------------------------------------------------------------------------- what it exports


def test_exports_are_hipdnns_and_nothing_else(library: Path) -> None:
    from hipdnn_iree.provider.plugin_abi import ENTRY_POINTS

    listing = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    )
    names = {line.split()[-1] for line in listing.stdout.splitlines()}
    constant = {"GetName", "GetVersion", "GetType", "GetLastErrorString", "GetApiVersion"}
    constant |= {"SetLoggingCallback", "SetLogLevel"}
    engine = {*ENTRY_POINTS, "GetAllEngineIds", "GetEngineName"}
    assert names == {f"hipdnnPlugin{n}" for n in constant} | {
        f"hipdnnEnginePlugin{n}" for n in engine
    }
    needed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True)
    assert "python" not in needed.stdout.replace(str(library), "")
    assert re.search(r"FLAGS_1.*NODELETE", needed.stdout)


def test_table_is_that_of_the_source() -> None:
    """Names and order of the entry points in C and in Python."""
    from hipdnn_iree.hipdnn_plugin import abi, library
    from hipdnn_iree.provider import native
    from hipdnn_iree.provider.plugin_abi import ENTRY_POINTS

    source = library.LIBRARY.source.read_text()
    block = source[source.index("#define FORWARDED(X)") : source.index("static struct table {")]
    names = re.findall(r"^\s+X\((\w+),", block, re.M)
    assert names == list(ENTRY_POINTS)
    parameters = re.findall(r"^\s+X\(\w+,\s*\\?\s*\((.*?)\),", block, re.M | re.S)
    for name, text in zip(names, parameters, strict=True):
        # One host passes a fourth argument to it.
        more = name == "CreateExecutionContextFromSerialized"
        assert text.count(",") + 1 == len(ENTRY_POINTS[name]) + more, name
    letters = {ctypes.c_void_p: "n", ctypes.c_uint32: "I", ctypes.c_int64: "L"}
    formats = re.findall(r'"([nIL]+)"\)', block)
    assert formats == ["".join(letters[kind] for kind in kinds) for kinds in ENTRY_POINTS.values()]
    assert f"#define TABLE_VERSION {abi.TABLE_VERSION} " in source
    fields = [name for name, _ in abi.ShimTable._fields_][: -len(names)]
    header = (Path(native.__file__).parent / "python_host.h").read_text()
    head = header[header.index("#define HOST_FIELDS") : header.index("#define HOST_VALUES")]
    found = re.findall(r"\(\*(\w+)\)\(|(\w+);", head)
    assert ["".join(pair) for pair in found] == fields
    assert re.search(r"static struct table \{\s+HOST_FIELDS\n#define FIELD", source)


# ---------------------------------------------------------------------------- log


def test_log_goes_to_the_callback_at_the_level_of_the_variable(host: Any) -> None:
    show = {"HOST_SHOW_LOG": "1"}
    loud = host.run("start", env={**show, "HIPDNN_LOG_LEVEL": "info"})
    assert "started in Python" in loud["log"]
    for level in ("warn", "error", "fatal", "off", "nonsense"):
        assert "log" not in host.run("start", env={**show, "HIPDNN_LOG_LEVEL": level}), level


def test_failure_to_start_is_logged(host: Any, library: Path, tmp_path: Path) -> None:
    env = {"HOST_SHOW_LOG": "1", "HIPDNN_LOG_LEVEL": "error"}
    facts = host.run("start", library=copy_of(library, tmp_path), env=env)
    assert "does not know its Python" in facts["log"]


def test_a_line_of_the_log_has_time_thread_and_level(
    host: Any, library: Path, tmp_path: Path
) -> None:
    """hipDNN adds none of them to what its callback gets; also where Python does not start."""
    env = {"HOST_SHOW_LOG": "1", "HIPDNN_LOG_LEVEL": "info"}
    stamp = r"\d \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} thread \d+ "
    loud = host.run("start", env=env)["log"]
    assert re.match(stamp + r"INFO hipdnn_iree\.plugin: hipdnn-iree .* started in Python", loud)
    broken = host.run("start", library=copy_of(library, tmp_path), env=env)["log"]
    assert re.match(stamp + r"ERROR hipdnn_iree\.plugin: .*does not know its Python", broken)
