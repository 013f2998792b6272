"""`xpr bench --scale`: the time of a function on many processes, foretold."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Call

PREDICT = ("bench", "model.py:predict", "--args", "f32[16@x,8@y]", "f32[8@y,4]")
# 16 and 24 floats are summed over y and over x; a message takes a second, however long it is.
LATENCY = (
    "--latency",
    "1e6",
    "--overhead",
    "0",
    "--bandwidth",
    "1e9",
    "--reduction",
    "1e9",
    "--compute",
    "500",
)


def rows(out: str) -> dict[int, list[str]]:
    """The words of each line of the table, by the number of processes."""
    lines = [line.split() for line in out.split("\n\n")[1].splitlines()]
    head = "processes devices sent compute direct step efficiency tree".split()
    assert lines[0] == head
    return {int(words[0]): words for words in lines[1:]}


def test_rounds_of_messages_make_the_time(call: Call, folder: Path) -> None:
    status, out, err = call(*PREDICT, "--mesh", "x=2,y=2", "--scale", "8,4", *LATENCY)
    assert (status, err) == (0, "")
    found = rows(out)
    # One round over y, and one over x; by recursive doubling log2(x), where x = processes / 2.
    assert {n: "".join(w[6:8]) for n, w in found.items()} == {4: "2s", 8: "2s"}
    assert {n: "".join(w[-2:]) for n, w in found.items()} == {4: "2s", 8: "3s"}
    assert {n: w[-3] for n, w in found.items()} == {4: "20.0%", 8: "20.0%"}
    assert list(found) == [4, 8]
    assert "grown along x" in out
    assert "(weak scaling)" in out
    assert "assumed:" in out


def test_sizes_grow_with_their_axis_or_stay(call: Call, folder: Path) -> None:
    given = (*PREDICT, "--mesh", "x=2,y=2", *LATENCY)
    # Each device receives the sum of 4 columns of its rows over y, and 4 columns' sums over x.
    grown = rows(call(*given, "--scale", "4,8").out)
    assert {n: w[2:4] for n, w in grown.items()} == {4: ["144", "B"], 8: ["152", "B"]}
    fixed = rows(call(*given, "--scale", "4,8", "--strong").out)
    assert {n: w[2:4] for n, w in fixed.items()} == {4: ["144", "B"], 8: ["88", "B"]}


def test_devices_of_one_process_do_not_send(call: Call, folder: Path) -> None:
    given = (*PREDICT, "--mesh", "x=2,y=2", *LATENCY, "--devices-per-process", "4")
    found = rows(call(*given, "--scale", "1,2").out)
    assert found[1][1] == "4"
    assert float(found[1][6]) < 1e-3
    assert found[2][1] == "8"
    assert found[2][6:8] == ["1", "s"]  # only the four along x are on two processes


def test_what_a_device_computes_is_measured(call: Call, folder: Path) -> None:
    out = call(*PREDICT, "--mesh", "x=2,y=2", "--scale", "4").out
    assert "compute    measured here on one device" in out
    words = rows(out)[4]
    assert float(words[4]) > 0
    assert words[5] in ("us", "ms")
    assert 0 < float(words[-3].rstrip("%")) < 100


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--scale", "0"), "--scale takes numbers of processes"),
        (("--scale", "4;8"), "--scale takes numbers of processes"),
        (("--scale", "4", "--mesh", ""), "a mesh is written like x=4,y=2"),
        (("--scale", "3", "--mesh", "x=2,y=2"), "3 processes with 1 devices each do not make"),
        (("--scale", "4", "--mesh", "x=2,y=2", "--axis", "z"), "--axis names 'z'"),
        (("--scale", "4", "--mesh", "x=2,y=2", "--bandwidth", "0"), "bandwidth must be positive"),
        (
            ("--scale", "4", "--mesh", "x=2,y=2", "--devices-per-process", "0"),
            "--devices-per-process must be at least 1",
        ),
        (("--scale", "4"), "give its axes by --mesh"),
        (("--mesh", "x=2,y=2"), "add --scale"),
        (("--scale", "8", "--mesh", "x=2,y=2", "--compute", "-1"), "--compute must be"),
    ],
)
def test_what_makes_no_sense_is_refused(
    call: Call, folder: Path, more: tuple[str, ...], message: str
) -> None:
    status, out, err = call(*PREDICT, *more)
    assert (status, out) == (2, "")
    assert message in err


def test_a_size_that_does_not_grow_evenly(call: Call, folder: Path) -> None:
    types = ("f32[10@x,8]", "f32[8,4]")
    given = ("bench", "model.py:predict", "--args", *types, "--compute", "1", "--mesh", "x=4")
    status, _, err = call(*given, "--scale", "2")
    assert status == 2
    assert "axis 0 of 'f32[10@x,8]', of size 10, cannot be cut evenly" in err
    given = (*PREDICT, "--compute", "1", "--mesh", "x=4,y=2", "--axis", "y")
    assert call(*given, "--scale", "4").status == 0
