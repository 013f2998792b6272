"""Compiles in a process of their own: crashes, and helpers that are not as they should be."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lowering.test_balance_loops import OLD_VALUE
from tests.lowering.test_compiler import add_text, doubles, long_text
from xpr.core.config import config, override
from xpr.core.errors import CompileError
from xpr.lowering.iree import attempts
from xpr.lowering.iree.compiler import compile_stablehlo
from xpr.lowering.iree.jobs import Job
from xpr.lowering.targets import get_target
from xpr.lowering.targets.flags import ProgramHints

if sys.platform != "linux":
    pytest.skip("helper processes are for Linux", allow_module_level=True)

from xpr.lowering.iree.process import address, client, messages, worker
from xpr.lowering.iree.process.address import UnavailableError
from xpr.lowering.iree.process.client import CompilerDiedError, CompilerTimeoutError

ROOT = Path(__file__).parents[2]
CPU = get_target("cpu")
FLAGS = CPU.flag_sets(ProgramHints())[0]


@pytest.fixture(scope="module")
def shared() -> Iterator[Path]:
    """A directory with the helper that most tests here share."""
    yield from _directory()


@pytest.fixture
def own() -> Iterator[Path]:
    """A directory for helpers of the test's own."""
    yield from _directory()


def _directory() -> Iterator[Path]:
    # The names of pytest's own directories are too long for sockets.
    found = Path(tempfile.mkdtemp(prefix="xpr-t-"))
    yield found
    for path in found.glob("*.sock"):
        process = helper_at(path)
        if process is not None:
            os.kill(process, signal.SIGKILL)
    shutil.rmtree(found)


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Has this process compile by the helper of a directory, without a cache."""

    def there(directory: Path) -> None:
        monkeypatch.setenv("XPR_RUNTIME_DIR", str(directory))

    monkeypatch.setenv("XPR_CACHE", "0")
    monkeypatch.setattr(client, "_given_up", {})
    attempts.warn_unavailable.cache_clear()
    with override("compiler", "process"):
        yield there


def helper_at(path: Path) -> int | None:
    """The process that listens at a socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        try:
            connection.connect(str(path))
            return messages.receive(connection)[0]["process"]
        except (ConnectionError, EOFError):
            return None


def compiled(name: str = "main") -> None:
    """Compiles a program by the helper and runs it."""
    module, said = client.compile_module(
        add_text(name), FLAGS, name="t", verify=False, parallel=False
    )
    assert module is not None, said
    doubles(module, name)


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone before, or between, opening and reading
        return False


def script(text: str, **environment: str) -> subprocess.Popen[str]:
    """A process that runs a script with `compile_cpu` and `add_text`."""
    start = (
        "import os\nfrom tests.lowering.test_compiler import add_text, compile_cpu, long_text\n"
        "from xpr.lowering.iree import compiler_library\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", start + textwrap.dedent(text)],
        cwd=ROOT,
        env={**os.environ, "XPR_CACHE": "0", "XPR_COMPILER": "process", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def test_a_crash_ends_the_compile_alone(shared: Path, use: Callable[[Path], None]) -> None:
    use(shared)
    compiled()
    (path,) = shared.glob("*.sock")
    helper = helper_at(path)
    with pytest.raises(CompilerDiedError, match=r"ended by signal (6|11)"):
        client.compile_module(OLD_VALUE, FLAGS, name="t", verify=False, parallel=False)
    compiled("again")
    assert helper_at(path) == helper


def test_programs_for_other_devices_have_a_helper_of_their_own(
    shared: Path, use: Callable[[Path], None]
) -> None:
    # That of the CPU's programs leaves out what only others need.
    use(shared)
    compiled()
    flags = get_target("vmvx").flag_sets(ProgramHints())[0]
    module, said = client.compile_module(add_text(), flags, name="t", verify=False, parallel=False)
    assert module is not None, said
    for_cpu, for_all = address.socket_path(FLAGS), address.socket_path(flags)
    helpers = {helper_at(for_cpu), helper_at(for_all)}
    assert len(helpers) == 2
    assert None not in helpers
    process = helper_at(for_all)
    assert process is not None
    os.kill(process, signal.SIGKILL)
    for_all.unlink()


def test_a_crash_with_every_set_of_flags_is_an_error(
    shared: Path, use: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(shared)
    monkeypatch.setattr(Job, "changes", lambda job: ())
    with pytest.raises(CompileError, match="process ended by signal") as caught:
        compile_stablehlo(OLD_VALUE, CPU, hints=ProgramHints())
    assert caught.value.stablehlo_path is not None
    Path(caught.value.stablehlo_path).unlink()


def test_what_the_compiler_says_comes_back(shared: Path, use: Callable[[Path], None]) -> None:
    use(shared)
    module, said = client.compile_module("func.func", FLAGS, name="t", verify=True, parallel=True)
    assert module is None
    assert any(d.severity == "error" and "expected" in d.message for d in said)
    flags = [*FLAGS, "--no-such-flag"]
    with pytest.raises(RuntimeError, match="no-such-flag"):
        client.compile_module(add_text(), flags, name="t", verify=True, parallel=True)


def test_threads_and_processes_share_one_helper(shared: Path, use: Callable[[Path], None]) -> None:
    use(shared)
    failed: list[BaseException] = []

    def work(name: str) -> None:
        try:
            compiled(name)
        except BaseException as error:
            failed.append(error)

    others = [
        script(
            "compile_cpu(add_text('p'))\nprint(compiler_library.is_loaded())",
            XPR_RUNTIME_DIR=str(shared),
        )
        for _ in range(2)
    ]
    threads = [threading.Thread(target=work, args=(f"f{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert [output(process) for process in others] == ["False\n"] * 2
    assert len(list(shared.iterdir())) == 1


def test_a_helper_that_died_is_followed_by_another(own: Path, use: Callable[[Path], None]) -> None:
    use(own)
    compiled()
    (path,) = own.glob("*.sock")
    first, its_worker = helper_of_user(), only_worker()
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not is_running(first) and not is_running(its_worker))
    assert path.exists()
    compiled("again")
    assert helper_at(path) != first


def test_a_helper_that_hangs_is_given_up(
    own: Path, use: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(own)
    compiled()
    (path,) = own.glob("*.sock")
    helper = helper_at(path)
    assert helper is not None
    os.kill(helper, signal.SIGSTOP)
    monkeypatch.setattr(client, "_PATIENCE", 0.5)
    with pytest.warns(RuntimeWarning, match="did not answer for 0.5 seconds"):
        doubles(compile_stablehlo(add_text(), CPU, hints=ProgramHints()))
    # Nothing is waited for a second time.
    with pytest.raises(UnavailableError, match="did not answer"):
        compiled()
    os.kill(helper, signal.SIGKILL)


def test_a_helper_of_another_version_is_not_used(own: Path, use: Callable[[Path], None]) -> None:
    use(own)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address.socket_path(FLAGS)))
        listener.listen()

        def answer() -> None:
            with listener.accept()[0] as connection:
                messages.send(connection, {"digest": "other"})

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(UnavailableError, match="of another version"):
            compiled()
        thread.join()
    address.socket_path(FLAGS).unlink()


def test_a_helper_of_another_user_is_not_used(
    shared: Path, use: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(shared)
    compiled()
    monkeypatch.setattr(address, "is_own_user", lambda connection: False)
    with pytest.raises(UnavailableError, match="another user's"):
        compiled()
    monkeypatch.undo()
    left, right = socket.socketpair()
    with left, right:
        assert address.is_own_user(left)
        monkeypatch.setattr(os, "geteuid", lambda: 123456)
        assert not address.is_own_user(left)


def test_directories_that_others_can_enter_are_refused(
    own: Path, use: Callable[[Path], None]
) -> None:
    use(own)
    own.chmod(0o755)
    with pytest.raises(UnavailableError, match="can be entered by others"):
        compiled()
    own.chmod(0o700)
    use(own / "link")
    (own / "link").symlink_to(own)
    with pytest.raises(UnavailableError, match="not a directory"):
        address.directory()
    (own / "link").unlink()
    use(own / ("long" * 30))
    with pytest.raises(UnavailableError, match="too long for the path of a socket"):
        address.socket_path(FLAGS)


def test_each_user_has_a_directory_of_their_own(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XPR_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(own))
    assert address.directory() == own / "xpr"
    assert (own / "xpr").stat().st_mode & 0o777 == 0o700
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    mine = address.directory()
    monkeypatch.setattr(os, "geteuid", lambda: 123456)
    with pytest.raises(UnavailableError, match="can be entered by others"):
        address.directory()  # it was made by this user
    assert sorted(p.name for p in own.iterdir()) == sorted(["xpr", "xpr-123456", mine.name])


@pytest.mark.parametrize("where", ["process", "auto"])
def test_without_a_directory_this_process_compiles(
    where: str, use: Callable[[Path], None], recwarn: pytest.WarningsRecorder
) -> None:
    use(Path("/nonexistent/xpr"))
    with override("compiler", where):
        doubles(compile_stablehlo(add_text(), CPU, hints=ProgramHints()))
    said = [str(w.message) for w in recwarn if "compiled in this process" in str(w.message)]
    assert len(said) == (where == "process")


def test_nothing_is_left_of_an_idle_helper(own: Path) -> None:
    text = """
    from xpr.lowering.iree.process import address
    from tests.lowering.test_compiler_process import FLAGS, children, helper_at
    compile_cpu(add_text())
    helper = helper_at(address.socket_path(FLAGS))
    print(helper, *children(helper))
    """
    process = script(text, XPR_RUNTIME_DIR=str(own), XPR_COMPILER_IDLE="0.5")
    helper, worker = map(int, output(process).split())
    wait_until(lambda: not is_running(helper) and not is_running(worker))
    assert list(own.iterdir()) == []


def test_programs_in_the_cache_need_no_helper(own: Path, tmp_path: Path) -> None:
    text = "compile_cpu(add_text())"
    cache = {"XPR_CACHE": "1", "XPR_CACHE_DIR": str(tmp_path)}
    output(script(text, XPR_COMPILER="inline", XPR_RUNTIME_DIR=str(own), **cache))
    watched = """
    import sys
    compile_cpu(add_text())
    print([m for m in sys.modules if m.startswith("xpr.lowering.iree.process")])
    """
    assert output(script(watched, XPR_RUNTIME_DIR=str(own), **cache)) == "[]\n"
    assert list(own.iterdir()) == []


def test_a_fork_in_the_middle_of_a_compile(shared: Path) -> None:
    text = """
    import signal, threading
    thread = threading.Thread(target=compile_cpu, args=(long_text(60),))
    thread.start()
    threading.Event().wait(0.2)
    child = os.fork()
    if not child:
        signal.alarm(100)
        compile_cpu(add_text("child"))
        os._exit(0)
    print(os.waitpid(child, 0)[1])
    thread.join()
    """
    assert output(script(text, XPR_RUNTIME_DIR=str(shared))) == "0\n"


def children(process: int) -> list[int]:
    return [
        int(p)
        for task in Path(f"/proc/{process}/task").iterdir()
        for p in (task / "children").read_text().split()
    ]


def helper_of_user() -> int:
    found = helper_at(address.socket_path(FLAGS))
    assert found is not None
    return found


def only_worker() -> int:
    """The worker of the helper, if it has one."""
    (found,) = children(helper_of_user())
    return found


def open_files(process: int) -> list[Path]:
    return [f for f in Path(f"/proc/{process}/fd").iterdir() if f.is_symlink()]


def test_a_worker_compiles_one_program_after_the_other(
    own: Path, use: Callable[[Path], None]
) -> None:
    use(own)
    compiled()
    first = only_worker()
    compiled("again")
    flags = [*FLAGS, "--no-such-flag"]
    with pytest.raises(RuntimeError, match="no-such-flag"):
        client.compile_module(add_text(), flags, name="t", verify=True, parallel=True)
    compiled("more")
    assert only_worker() == first


@pytest.mark.parametrize(
    ("limit", "value"), [("_MOST_COMPILES", 2), ("_MOST_BYTES", 1), ("_MOST_SECONDS", 0.0)]
)
def test_a_worker_ends_that_has_compiled_much_or_is_large_or_old(
    limit: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The worker is a thread here, in a process that may be large.
    monkeypatch.setattr(worker, "_MOST_BYTES", 1 << 60)
    monkeypatch.setattr(worker, limit, value)
    monkeypatch.setenv("TMPDIR", tempfile.gettempdir())
    request = {
        "flags": ["--no-such-flag"],
        "name": "t",
        "verify": False,
        "parallel": False,
        "shortcuts": [],
        "changes": [],
        "tmpdir": tempfile.gettempdir(),
        "processors": sorted(os.sched_getaffinity(0)),
    }
    helper, control = socket.socketpair()
    thread = threading.Thread(target=worker.work, args=(control,))
    thread.start()
    said = b""
    with helper, control:
        while worker.LAST not in said:
            left, right = socket.socketpair()
            with left, right:
                socket.send_fds(helper, [worker.TAKE], [right.fileno()])
                messages.send(left, request, add_text().encode())
                assert messages.receive(left)[0] == {"begun": os.getpid()}
                said += helper.recv(1)
                assert "no-such-flag" in messages.receive(left)[0]["error"]
        thread.join()
    assert said == (worker.DONE + worker.LAST if limit == "_MOST_COMPILES" else worker.LAST)


def test_the_compile_of_a_process_that_ends_is_ended(
    own: Path, use: Callable[[Path], None]
) -> None:
    use(own)
    compiled()
    ended = only_worker()
    os.kill(ended, signal.SIGSTOP)  # as if it compiled for ever
    process = endless(own)
    process.kill()
    process.communicate()
    wait_until(lambda: not is_running(ended))
    compiled("again")
    assert only_worker() != ended


def endless(own: Path) -> subprocess.Popen[str]:
    """A process whose request has been sent, so that the helper has a worker see to it."""
    sent = own / "sent"
    program = f"""
    from pathlib import Path
    from xpr.lowering.iree.process import messages

    send = messages.send

    def noted(*operands):
        send(*operands)
        Path({os.fspath(sent)!r}).touch()

    messages.send = noted
    compile_cpu(add_text('never'))
    """
    process = script(program, XPR_RUNTIME_DIR=str(own))
    wait_until(sent.exists)
    return process


def test_an_interrupt_ends_the_compile(own: Path, use: Callable[[Path], None]) -> None:
    use(own)
    compiled()
    ended = only_worker()
    os.kill(ended, signal.SIGSTOP)
    process = endless(own)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=100)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in said
    wait_until(lambda: not is_running(ended))


def test_who_waits_too_long_gets_another_worker(own: Path, use: Callable[[Path], None]) -> None:
    use(own)
    compiled()
    helper = helper_of_user()
    cores = os.cpu_count() or 1
    with contextlib.ExitStack() as stack:
        for _ in range(cores):
            connection = stack.enter_context(socket.socket(socket.AF_UNIX))
            connection.connect(str(address.socket_path(FLAGS)))
            assert messages.receive(connection)[0]["process"] == helper
            connection.sendall(b"\0")
            # The worker waits for the rest.
            assert messages.receive(connection)[0]["begun"] in children(helper)
        busy = set(children(helper))
        assert len(busy) == cores
        compiled("late")
        assert busy <= set(children(helper))
    wait_until(lambda: len(children(helper)) <= cores)
    compiled("again")


def test_a_compile_that_takes_too_long_is_given_up(own: Path, use: Callable[[Path], None]) -> None:
    use(own)
    compiled()
    stopped = only_worker()
    os.kill(stopped, signal.SIGSTOP)
    with pytest.raises(UnavailableError, match=r"no compile began within 0\.3 seconds"):
        client.compile_module(
            add_text(), FLAGS, name="t", verify=False, parallel=False, timeout=0.3
        )
    wait_until(lambda: not is_running(stopped))
    compiled("again")


def test_a_worker_that_never_answers_is_given_up(own: Path, use: Callable[[Path], None]) -> None:
    use(own)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address.socket_path(FLAGS)))
        listener.listen()
        left: list[bytes] = []

        def answer() -> None:
            with listener.accept()[0] as connection:
                messages.send(connection, {"digest": address.digest()})
                messages.receive(connection)
                messages.send(connection, {"begun": 1})
                left.append(connection.recv(1))

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(CompilerTimeoutError, match=r"than 0\.3 seconds \(XPR_COMPILER_TIMEOUT"):
            client.compile_module(
                add_text(), FLAGS, name="t", verify=False, parallel=False, timeout=0.3
            )
        thread.join()
    assert left == [b""]  # the other side is told


def test_a_helper_that_ends_in_the_middle_is_asked_again(
    own: Path, use: Callable[[Path], None]
) -> None:
    use(own)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address.socket_path(FLAGS)))
        listener.listen()

        def leave() -> None:
            with listener.accept()[0] as connection:
                messages.send(connection, {"digest": address.digest()})
                messages.receive(connection)
                messages.send(connection, {"begun": 1})
            listener.close()

        thread = threading.Thread(target=leave)
        thread.start()
        compiled()
        thread.join()
    assert helper_of_user() != os.getpid()


def test_what_takes_too_long_is_compiled_in_a_simpler_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XPR_CACHE", "0")
    run = attempts.run_compiler
    tried: list[bool] = []

    def slow(job: Any, text: str, flags: Any, verify: bool) -> Any:
        tried.append(job.separate)
        if not job.separate:
            raise CompilerTimeoutError(3)
        return run(job, text, flags, verify)

    monkeypatch.setattr(attempts, "run_compiler", slow)
    with pytest.warns(RuntimeWarning, match="its operations are computed one by one"):
        doubles(compile_stablehlo(add_text("slow"), CPU, hints=ProgramHints()), "slow")
    assert tried == [False, True]


def test_settings() -> None:
    with pytest.raises(ValueError, match="expected one of auto, process, inline"):
        config.update("compiler", "elsewhere")
    with pytest.raises(ValueError, match="expected seconds from 0"):
        config.update("compiler_idle", -1)
    assert long_text(2).count("stablehlo.add") == 2
