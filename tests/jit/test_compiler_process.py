# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Life and death of compiler workers: threads, kills, forks, exits, odd hosts."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from hipdnn_iree.graph_api.errors import CompileError
from hipdnn_iree.jit.child_process import interpreter
from hipdnn_iree.jit.compiler.client import CompileRequest
from hipdnn_iree.jit.compiler.process import WorkerEnded, WorkerProcess
from hipdnn_iree.jit.compiler.wire import IDLE_EXIT
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.jit.target import Target
from under_settings import Compiler, default_compiler, target_flags

MAIN = """module @module {
  func.func @main(%out: !torch.tensor<[4,N],f32>, %a: !torch.vtensor<[4,N],f32>) {
    %r = torch.aten.relu %a : !torch.vtensor<[4,N],f32> -> !torch.vtensor<[4,N],f32> loc("n0")
    torch.overwrite.tensor.contents %r overwrites %out : \
!torch.vtensor<[4,N],f32>, !torch.tensor<[4,N],f32> loc("n0")
    return
  }
}
"""
FLAGS = target_flags(Target.parse("cpu"))


def relu(columns: int = 4) -> CompileRequest:
    return CompileRequest(source=MAIN.replace("N]", f"{columns}]").encode(), flags=FLAGS)


def crashing() -> CompileRequest:
    text = relu().source.replace(b"%r overwrites", b"%a overwrites")
    return CompileRequest(source=text, flags=FLAGS)


@pytest.fixture(autouse=True)
def _settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    with scope(reproducers_dir=tmp_path / "repro", compiler_timeout_s=120):
        yield


def table() -> dict[int, tuple[int, str]]:
    """Return parent and state of every process."""
    found = {}
    for entry in os.listdir("/proc"):
        try:
            stat = Path("/proc", entry, "stat").read_text() if entry.isdigit() else ""
        except OSError:
            continue
        if stat:
            state, parent = stat.rpartition(")")[2].split()[:2]
            found[int(entry)] = (int(parent), state)
    return found


def children(parent: int, state: str = "") -> set[int]:
    return {pid for pid, (p, s) in table().items() if p == parent and state in s}


def gone(pid: int) -> bool:
    return table().get(pid, (0, "Z"))[1] == "Z"


def ended(child: int) -> bool:
    """Whether all threads of a child have ended: it is ``gone`` when its first one has."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


Until = Callable[[Callable[[], object]], None]


def worker_of(compiler: Compiler) -> int:
    (worker,) = compiler.pool._states[os.getpid()].idle
    return worker.pid


class Later(threading.Thread):
    """Stops the idle worker; does something as soon as the worker was sent its next job.

    So it happens during the job on any machine: a stopped worker does not answer.
    """

    def __init__(self, compiler: Compiler, until: Until, action: Callable[[], object]) -> None:
        super().__init__()
        (self.worker,) = compiler.pool._states[os.getpid()].idle
        os.kill(self.worker.pid, signal.SIGSTOP)
        self.jobs, self.until, self.action = self.worker._jobs, until, action
        self.start()

    def run(self) -> None:
        self.until(lambda: self.worker._jobs > self.jobs)
        self.action()


def scratch_folders() -> set[str]:
    return {e for e in os.listdir(tempfile.gettempdir()) if e.startswith("hipdnn-iree-")}


def test_threads_share_the_workers() -> None:
    before = children(os.getpid())
    with Compiler(2) as compiler, ThreadPoolExecutor(4) as pool:
        sizes = [4, 8, 12, 16, 4, 8, 12, 16]
        results = list(pool.map(lambda n: compiler.compile(relu(n)).vmfb, sizes))
        assert len(children(os.getpid()) - before) == 2
        assert results[:4] == results[4:]
        assert len(set(results)) == 4
        # One thread crashes its worker, which no other thread notices.
        jobs = [relu(4), crashing(), relu(8), crashing()]
        done = list(pool.map(lambda r: outcome(compiler, r), jobs))
        assert done == [results[0], "crash", results[1], "crash"]
    assert children(os.getpid()) <= before


def outcome(compiler: Compiler, request: CompileRequest) -> bytes | str:
    with scope(reproducers_keep=0):  # scopes do not reach other threads
        try:
            return compiler.compile(request).vmfb
        except CompileError as error:
            return error.stage


def test_workers_are_kept_and_leave_nothing_behind() -> None:
    before = children(os.getpid())
    with Compiler(2) as compiler:
        compiler.compile(relu())
        pid = worker_of(compiler)
        compiler.compile(relu())
        assert worker_of(compiler) == pid
        with pytest.raises(CompileError):
            compiler.compile(crashing())
        compiler.compile(relu())
        assert worker_of(compiler) != pid
        assert not children(os.getpid(), "Z") - before
        assert len(children(os.getpid()) - before) == 1
    assert children(os.getpid()) <= before
    assert not scratch_folders()


def test_start_makes_one_ready() -> None:
    with Compiler(2) as compiler:
        compiler.start()
        pid = worker_of(compiler)
        compiler.start()
        assert worker_of(compiler) == pid
        compiler.compile(relu())
        assert worker_of(compiler) == pid


def test_kill_in_the_middle_is_an_error_and_the_next_works(until: Until) -> None:
    with Compiler(1) as compiler:
        compiler.compile(relu())
        pid = worker_of(compiler)
        killer = Later(compiler, until, lambda: os.kill(pid, signal.SIGKILL))
        with pytest.raises(CompileError, match=r"SIGKILL.*memory") as caught:
            compiler.compile(relu(8))
        killer.join()
        assert caught.value.stage == "crash"
        assert pid not in table()  # reaped too
        assert compiler.compile(relu()).vmfb


def test_kill_while_idle_is_not_noticed(until: Until) -> None:
    with Compiler(1) as compiler:
        first = compiler.compile(relu()).vmfb
        pid = worker_of(compiler)
        os.kill(pid, signal.SIGKILL)
        until(lambda: ended(pid))
        assert compiler.compile(relu()).vmfb == first


def test_stopped_worker_runs_into_the_time_limit() -> None:
    with Compiler(1) as compiler:
        compiler.compile(relu())
        pid = worker_of(compiler)
        os.kill(pid, signal.SIGSTOP)
        big = CompileRequest(source=relu().source + b"// " + b"x" * 3_000_000, flags=FLAGS)
        with scope(compiler_timeout_s=0.5), pytest.raises(CompileError) as caught:
            compiler.compile(big)
        assert caught.value.stage == "timeout"
        assert gone(pid)
        assert compiler.compile(big).vmfb


@pytest.mark.usefixtures("interruptible")
def test_interrupt_ends_the_job_and_the_next_gets_its_own_answer(until: Until) -> None:
    me = threading.get_ident()
    with Compiler(1) as compiler:
        small = compiler.compile(relu(4)).vmfb
        killer = Later(compiler, until, lambda: signal.pthread_kill(me, signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            compiler.compile(relu(8))
        killer.join()
        assert compiler.compile(relu(4)).vmfb == small


def test_idle_worker_leaves_and_is_replaced(until: Until) -> None:
    with Compiler(1) as compiler, scope(compiler_idle_s=0.5):
        compiler.compile(relu())
        pid = worker_of(compiler)
        until(lambda: gone(pid))
        compiler.start()
        assert compiler.compile(relu()).vmfb
        assert worker_of(compiler) != pid


def test_job_that_meets_a_leaving_worker_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ask, leaving = WorkerProcess.ask, [IDLE_EXIT]

    def once(worker: WorkerProcess, *args: object) -> object:
        if leaving:
            worker.end()
            raise WorkerEnded(leaving.pop(), [])
        return ask(worker, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(WorkerProcess, "ask", once)
    with Compiler(1) as compiler:
        assert compiler.compile(relu()).vmfb


def test_closed_compiler() -> None:
    compiler = Compiler(1)
    compiler.compile(relu())
    compiler.close()
    compiler.close()
    assert compiler.pool.closed
    for call in (compiler.start, lambda: compiler.compile(relu())):
        with pytest.raises(CompileError, match="was closed"):
            call()
    unused = Compiler(1)
    unused.close()
    with pytest.raises(CompileError, match="was closed"):
        unused.start()


def test_close_from_another_thread_ends_a_running_job(until: Until) -> None:
    compiler = Compiler(1)
    compiler.compile(relu())
    pid = worker_of(compiler)
    closer = Later(compiler, until, compiler.close)
    with pytest.raises(CompileError, match="was closed") as caught:
        compiler.compile(relu())
    closer.join()
    assert caught.value.reproducer == ""
    assert gone(pid)


def test_default_compiler_is_shared_and_renewed() -> None:
    first = default_compiler()
    assert default_compiler().pool is first.pool
    first.close()
    second = default_compiler()
    assert second.pool is not first.pool
    assert second.compile(relu()).vmfb
    second.close()


def test_fork_leaves_the_parents_worker_alone() -> None:
    with Compiler(1) as compiler:
        expected = compiler.compile(relu()).vmfb
        pid = worker_of(compiler)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                own = compiler.compile(relu()).vmfb == expected and worker_of(compiler) != pid
                compiler.close()
                status = 0 if own else 2
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert compiler.compile(relu()).vmfb == expected
        assert worker_of(compiler) == pid


HOST = """
import os, sys, time, threading
from hipdnn_iree.jit.compiler.client import Compiler, CompileRequest
from hipdnn_iree.jit.options import WorkerOptions
request = CompileRequest(source=sys.stdin.buffer.read(), flags=tuple(sys.argv[2:]))
compiler = Compiler(WorkerOptions(jobs=1))
compiler.compile(request)
worker = compiler.pool._states[os.getpid()].idle[0]
print(worker.pid, worker._scratch, flush=True)
if sys.argv[1] == "tool":
    compiler = Compiler(WorkerOptions(mode="cli"), compiler.pool)
    while True:
        compiler.compile(request)
elif sys.argv[1] == "forked":
    os.fork()
    time.sleep(600)
elif sys.argv[1] == "sleep":
    time.sleep(600)
elif sys.argv[1] == "thread":
    jobs = lambda: [compiler.compile(request) for _ in range(9)]
    threading.Thread(target=jobs, daemon=True).start()
    while not compiler.pool._states[os.getpid()].busy:
        time.sleep(0.001)
"""


@pytest.fixture
def host() -> Iterator[Callable[[str], tuple[subprocess.Popen[bytes], int, str]]]:
    """Start a host process with a worker; return it, the worker's pid and its folder."""
    started: list[subprocess.Popen[bytes]] = []

    def start(what: str) -> tuple[subprocess.Popen[bytes], int, str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOST, what, *FLAGS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "HIPDNN_IREE_REPRODUCERS_KEEP": "0"},
            start_new_session=True,
        )
        started.append(process)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(relu().source)
        process.stdin.close()
        pid, folder = process.stdout.readline().split()
        return process, int(pid), folder.decode()

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize("what", ["sleep", "forked"])
def test_worker_vanishes_when_its_host_is_killed(
    host: Callable[[str], tuple[subprocess.Popen[bytes], int, str]], what: str, until: Until
) -> None:
    process, worker, folder = host(what)
    assert not gone(worker)
    os.kill(process.pid, signal.SIGKILL)
    until(lambda: gone(worker))
    until(lambda: not os.path.exists(folder))


UNHEARD = """
import os, select, signal, sys, time
from hipdnn_iree.jit.compiler.process import WorkerProcess
worker = WorkerProcess(sys.executable, warm=True, idle_s=600)
print(worker.pid, worker._scratch, flush=True)
if sys.argv[1] == "said":
    select.select([worker._socket], [], [])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("when", ["started", "said"])
def test_worker_vanishes_when_its_host_is_killed_before_it_has_heard_of_it(
    when: str, until: Until
) -> None:
    done = subprocess.run([sys.executable, "-c", UNHEARD, when], stdout=subprocess.PIPE)
    assert done.returncode == -signal.SIGKILL
    worker, folder = done.stdout.split()
    until(lambda: gone(int(worker)))
    until(lambda: not os.path.exists(folder))
    until(lambda: not scratch_folders())


def test_worker_that_leaves_leaves_no_folder(until: Until) -> None:
    worker = WorkerProcess(sys.executable, warm=False, idle_s=0.1)
    until(lambda: ended(worker.pid))
    assert not os.path.exists(worker._scratch)
    worker.close()


def test_running_tool_vanishes_when_its_host_is_killed(
    host: Callable[[str], tuple[subprocess.Popen[bytes], int, str]], until: Until
) -> None:
    process, worker, _ = host("tool")
    stopped: set[int] = set()

    def stop() -> bool:
        """Stop a tool, so that it does not end by itself; one that is just ending does not."""
        for pid in children(worker):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        stopped.update(children(worker, "T"))
        return bool(stopped)

    until(stop)
    tool = stopped.pop()
    os.kill(process.pid, signal.SIGKILL)
    until(lambda: gone(worker) and gone(tool))


@pytest.mark.parametrize("what", ["leave", "thread"])
def test_worker_vanishes_when_its_host_exits(
    host: Callable[[str], tuple[subprocess.Popen[bytes], int, str]], what: str, until: Until
) -> None:
    process, worker, folder = host(what)
    assert process.wait(300) == 0
    until(lambda: gone(worker))
    until(lambda: not os.path.exists(folder))


ODD_HOST = """
import os, signal, sys, time
from hipdnn_iree.graph_api.errors import CompileError
from hipdnn_iree.jit.compiler.client import Compiler, CompileRequest
from hipdnn_iree.jit.compiler.process import WorkerEnded, WorkerProcess
from hipdnn_iree.jit.options import WorkerOptions
good = CompileRequest(source=sys.stdin.buffer.read(), flags=tuple(sys.argv[1:]))
bad = CompileRequest(source=good.source.replace(b"%r over", b"%a over"), flags=good.flags)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
with Compiler(WorkerOptions(jobs=1)) as compiler:
    compiler.compile(good)
    try:
        compiler.compile(bad)
    except CompileError as error:
        print(error.stage)
    compiler.compile(good)
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
worker = WorkerProcess(sys.executable, warm=False, idle_s=60)
os.kill(worker.pid, signal.SIGKILL)
os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
try:
    worker.ask({}, b"x" * 1_000_000, 10)
except WorkerEnded as event:
    print(event.returncode)
worker.close()
"""


def test_host_that_ignores_children_and_dies_of_broken_pipes(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ODD_HOST, *FLAGS],
        input=relu().source,
        capture_output=True,
        env={**os.environ, "HIPDNN_IREE_REPRODUCERS_DIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.split() == [b"crash", b"-9"]


def test_interpreter_in_a_program_that_embeds_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert interpreter(None) == sys.executable
    monkeypatch.setattr(sys, "executable", "/opt/host/program")
    found = interpreter(None)
    assert found.startswith(sys.prefix)
    with Compiler(1) as compiler:
        assert compiler.compile(relu()).vmfb
    monkeypatch.setattr(sys, "executable", None)
    assert interpreter(None) == found
    chosen = tmp_path / "python3"
    with pytest.raises(CompileError, match="HIPDNN_IREE_PYTHON") as caught:
        interpreter(chosen)
    assert str(chosen) in str(caught.value)
    for name in ("prefix", "exec_prefix", "base_prefix"):
        monkeypatch.setattr(sys, name, str(tmp_path))
    with pytest.raises(CompileError, match="no Python"):
        interpreter(None)


@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="not in a virtual environment")
def test_interpreter_of_another_environment_finds_what_the_host_found() -> None:
    # The base interpreter has neither IREE nor this package; both come by the host's path.
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    base = Path(sys.base_prefix, "bin", version)
    with scope(compiler_python=base), Compiler(1) as compiler:
        assert compiler.compile(relu()).vmfb


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 3", "left with status 3"),
        ("echo garbage; sleep 9", "process is gone"),
        ("echo 'ModuleNotFoundError: No module named iree' >&2; exit 1", "No module named iree"),
    ],
)
def test_worker_that_is_no_worker(tmp_path: Path, script: str, said: str) -> None:
    fake = tmp_path / "python3"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    before = children(os.getpid())
    with scope(compiler_python=fake), Compiler(1) as compiler:
        with pytest.raises(CompileError, match=said) as caught:
            compiler.compile(relu())
        assert caught.value.stage == "crash"
    assert children(os.getpid()) <= before


def test_program_that_cannot_be_started(tmp_path: Path) -> None:
    fake = tmp_path / "python3"
    fake.write_bytes(b"\x7fELF nonsense")
    fake.chmod(0o755)
    with (
        scope(compiler_python=fake),
        Compiler(1) as compiler,
        pytest.raises(CompileError, match="cannot start the compiler worker"),
    ):
        compiler.compile(relu())
    assert not scratch_folders()


def test_no_place_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with Compiler(1) as compiler, pytest.raises(CompileError, match="cannot start"):
        compiler.compile(relu())


def test_nothing_in_the_working_directory_shadows_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json.py", "select.py", "hipdnn_iree.py", "iree.py", "tempfile.py"):
        (tmp_path / name).write_text("raise SystemExit('shadowed')\n")
    monkeypatch.chdir(tmp_path)
    with Compiler(1) as compiler:
        assert compiler.compile(relu()).vmfb
    shutil.rmtree(tmp_path / "gone", ignore_errors=True)
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with Compiler(1) as compiler:
        assert compiler.compile(relu()).vmfb


def test_folders_with_blanks(tmp_path: Path) -> None:
    # IREE does not quote the paths with which it starts its linker.
    import iree.compiler

    spaced = tmp_path / "site packages"
    spaced.mkdir()
    (spaced / "iree").mkdir()
    (spaced / "iree" / "compiler").symlink_to(Path(iree.compiler.__file__).parent)
    (tmp_path / "temp dir").mkdir()
    script = (
        "import hipdnn_iree as hi, numpy as np, sys\n"
        "g = hi.Graph(io_data_type='float')\n"
        "x = g.tensor(dims=(4,))\n"
        "y = g.relu(x).set_output()\n"
        "print(g.build('cpu').run({x: -np.ones(4, np.float32)})[y.uid].tolist())\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(spaced), *filter(None, sys.path)]),
        "TMPDIR": str(tmp_path / "temp dir"),
        "HIPDNN_IREE_CACHE_DIR": str(tmp_path / "the cache"),
    }
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "[0.0, 0.0, 0.0, 0.0]\n", done.stderr


def test_a_users_script_beside_a_file_that_is_named_like_the_compiler(tmp_path: Path) -> None:
    (tmp_path / "iree.py").write_text("raise ImportError('the wrong iree')\n")
    script = tmp_path / "script.py"
    script.write_text(
        "from hipdnn_iree import Graph\n"
        "g = Graph(io_data_type='float')\n"
        "g.relu(g.tensor(dims=(3, 5))).set_output()\n"
        "print(g.build('cpu').cache)\n"
    )
    root = Path(__file__).resolve().parents[2]
    environment = {
        **os.environ,
        "PYTHONPATH": str(root),
        "HIPDNN_IREE_CACHE_DIR": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "miss\n", done.stderr
