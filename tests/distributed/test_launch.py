"""`xpr launch`: output with numbers, exit statuses, failures, Ctrl-C, and what it says is wrong."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from tests.distributed.conftest import LAUNCHER, ROOT, skip_without_mpi
from xpr.cli import launched, main
from xpr.distributed import launchers, library


@contextmanager
def launching(*words, **env):
    """A running `xpr launch`, in a group of its own."""
    skip_without_mpi()
    with subprocess.Popen(
        [sys.executable, "-m", "xpr", "launch", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), "XPR_COLLECTIVE_TIMEOUT": "3", **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def launch(*words, **env):
    """Exit status, output by process, and what else was said."""
    with launching(*words, **env) as process:
        out, err = process.communicate(timeout=100)
    by_process: dict[int, str] = {}
    for line in (out + err).splitlines():
        number, text = re.fullmatch(r"(?:\[(\d+)\] )?(.*)", line).groups()
        key = -1 if number is None else int(number)
        by_process[key] = by_process.get(key, "") + text + "\n"
    return process.returncode, by_process, by_process.pop(-1, "")


def test_output_and_arguments(tmp_path):
    script = tmp_path / "a program.py"
    script.write_text(
        "import os, sys\n"
        "print(sys.argv[1:], os.environ['XPR_NUM_CPU_DEVICES'], os.environ['SAYS'])\n"
        "print('über', file=sys.stderr)\n"
        "print('no end', end='')\n"
    )
    words = ("--epochs", "3", "-n", "two words", "$HOME '")
    status, found, said = launch("-n", "3", "--devices", "2", str(script), *words, SAYS="a b")
    lines = [f"{list(words)} 2 a b", "no end", "über"]
    assert {p: sorted(text.splitlines()) for p, text in found.items()} == dict.fromkeys(
        range(3), sorted(lines)
    )
    assert status == 0
    assert all(line.startswith("xpr launch: ") for line in said.splitlines())
    if (cores := len(os.sched_getaffinity(0))) < 3:
        assert f"3 processes share {cores} cores and take turns" in said
    if os.geteuid() == 0:
        assert "xpr launch: started as root" in said


def test_modules_and_texts(tmp_path):
    (tmp_path / "a_module.py").write_text("import sys; print(sys.argv[1:])")
    status, found, _ = launch("-n", "1", "-m", "a_module", "-v", PYTHONPATH=f"{ROOT}:{tmp_path}")
    assert (status, found) == (0, {0: "['-v']\n"})
    program = """if True:
        import sys, xpr
        xpr.distributed.initialize()
        print(sys.argv[1:], xpr.process_count(), xpr.devices())
    """
    status, found, _ = launch("-n", "2", "-c", program, "-x")
    everything = "['-x'] 2 [CpuDevice(id=0), CpuDevice(id=1)]\n"
    assert (status, found) == (0, {0: everything, 1: everything})


def test_a_process_that_fails():
    program = """if True:
        import os, sys, xpr
        xpr.distributed.initialize()
        from xpr.runtimes import processes
        here = processes.current
        here.barrier(what="the warm-up")
        if here.index == 1:
            {failure}
        here.barrier(what="the meeting")
    """
    status, found, said = launch("-n", "2", "-c", program.format(failure="sys.exit(5)"))
    assert status == 5, (found, said)
    assert re.search(r"PeerError: the meeting: process 1 \(.*\) has ended", found[0])
    assert re.search(r"xpr launch: process 1 \(host \S+, pid \d+\) ended with status 5\n", said)

    status, found, said = launch("-n", "2", "-c", program.format(failure="os.kill(os.getpid(), 9)"))
    assert status == 128 + 9, (found, said)
    assert re.search(r"PeerError: the meeting: process 1 \(.*\) is gone", found[0])
    assert re.search(r"process 1 \(host \S+, pid \d+\) was killed by signal 9 \(SIGKILL\)\n", said)


def test_others_that_go_on_are_ended():
    program = """if True:
        import os, time
        if os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK")) == "0":
            raise SystemExit(3)
        time.sleep(100)
    """
    start = time.monotonic()
    status, _, said = launch("-n", "2", "--grace", "0.5", "-c", program)
    assert status == 3
    assert re.search(
        r"process 0 \(.*\) ended with status 3; ended the others that still ran: \[1\]", said
    )
    assert time.monotonic() - start < 50


WAITING = """if True:
    import os, time, xpr
    xpr.distributed.initialize()
    print("pid", os.getpid(), flush=True)
    if xpr.process_index() == 1:
        time.sleep(100)
    xpr.distributed.shutdown()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("to_all", [True, False], ids=["all", "one"])
def test_an_interrupt_ends_all(number, to_all):
    # A terminal sends the signal to the launcher, too.
    program = WAITING if to_all else "import os, time; print('pid', os.getpid()); time.sleep(100)"
    with launching("-n", "2", "-c", program) as process:
        assert process.stdout is not None
        pids = [int(process.stdout.readline().split()[-1]) for _ in range(2)]
        (os.killpg if to_all else os.kill)(process.pid, number)
        _, err = process.communicate(timeout=50)
    assert process.returncode == 128 + number
    assert "xpr launch: ending all processes" in err
    assert not any(map(is_running, pids))


def test_an_interrupt_under_mpirun():
    skip_without_mpi()
    variables = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    with subprocess.Popen(
        [str(LAUNCHER), "--oversubscribe", "-n", "2", sys.executable, "-c", WAITING],
        env={**os.environ, **variables, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        pids = [int(process.stdout.readline().split()[-1]) for _ in range(2)]
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=50)
    assert process.returncode != 0
    assert not any(map(is_running, pids))


def is_running(pid):
    """Whether there is a process of that number that has not ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_the_command_line(capsys, monkeypatch):
    skip_without_mpi()
    for words, status, message in (
        (("-n", "0", "x.py"), 2, "-n must be at least 1, got 0"),
        (("-n", "2"), 2, "which program? `xpr launch -n 4 train.py`, or -m module, or -c code"),
        (("-n", "2", "/no/where.py"), 2, "there is no file /no/where.py"),
        (("-n", "2", "--devices", "0", "-c", ""), 2, "--devices must be at least 1, got 0"),
        (("-n", "2", "--grace", "nan", "-c", "1"), 2, "--grace must be a number of seconds"),
        (("-n", "2", "--launcher", "/no/mpirun", "-c", "1"), 1, "/no/mpirun cannot be started"),
        (("-n", "2", "--launcher", "/bin/true", "-c", "1"), 1, "/bin/true is not a launcher"),
    ):
        assert main(["launch", *words]) == status
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["launch", "x.py"])
    assert "the following arguments are required: -n" in capsys.readouterr().err
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("PMI_SIZE", "2")
    assert main(["launch", "-n", "2", "-c", "1"]) == 2
    assert "this is already process 1 of 2 that MPICH's" in capsys.readouterr().err


def test_without_an_mpi(monkeypatch, tmp_path):
    monkeypatch.setattr(library, "wheel_launcher", lambda: None)
    with pytest.raises(launchers.LauncherMissingError, match=r"no MPI is installed here.*xpr\[mpi"):
        launchers.find({"PATH": str(tmp_path)})


def test_the_launcher_beside_a_library(tmp_path):
    for name in ("bin/mpirun", "lib/libmpi.so"):
        file = tmp_path / name
        file.parent.mkdir()
        file.write_text("#!/bin/sh\necho HYDRA build details:\necho Version: 4.3.2\n")
        file.chmod(0o755)
    expected = launchers.MpiLauncher(f"{tmp_path}/bin/mpirun", "hydra", "MPICH 4.3.2")
    for place in (f"{tmp_path}/lib", f"{tmp_path}/lib/libmpi.so"):
        assert launchers.find({"PATH": "", "MPI4PY_LIBMPI": place}) == expected
    assert expected.command(4, ["a", "b"], {}) == [expected.path, "-hosts", "a,b", "-n", "4"]


def test_what_open_mpi_is_told():
    launcher = launchers.MpiLauncher("mpirun", "openmpi")
    found = launcher.command(4, ["a:2", "b:2"], {"XPR_PLATFORMS": "cpu", "HOME": "/"})
    first = ["mpirun", "--oversubscribe", "--bind-to", "none"]
    assert found == [*first, "--host", "a:2,b:2", "-x", "XPR_PLATFORMS", "-n", "4"]
    assert launcher.command(4, [], {"XPR_PLATFORMS": "cpu"}) == [*first, "-n", "4"]


def test_lines_with_prefixes():
    source, target = os.pipe()
    lines = launched._Lines(target, b"[3] ")
    lines.take(b"one\ntw")
    lines.flush(quiet=60)
    lines.take(b"o\n\nthree")
    lines.flush()
    lines.flush()
    os.close(target)
    with os.fdopen(source, "rb") as file:
        assert file.read() == b"[3] one\n[3] two\n[3] \n[3] three\n"
