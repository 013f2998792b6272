"""`xpr inspect` of a function: shardings of its values, and what devices send each other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Call

PREDICT = ("inspect", "model.py:predict", "--args")


def test_a_function_on_a_mesh(call: Call, folder: Path) -> None:
    status, out, err = call(*PREDICT, "f32[16@x,8@y]", "f32[8@y,4]", "--mesh", "x=4,y=2")
    assert (status, err) == (0, "")
    head, table = out.split("\n\n")
    assert head.splitlines() == [
        "function   predict",
        "mesh       x=4, y=2, 8 devices",
        "  input    args[0]: f32[16@x,8@y]",
        "  input    args[1]: f32[8@y,4]",
        "  result   result['score']: f32[16@x,4]",
        "  result   result['sum']: i32[8@y]",
        # Of 4 rows and 4 columns: 16 products of 4 numbers, as many tanh, and sums.
        f"computes   {_flops(head)} floating-point operations on each device",
    ]
    rows = [line.split() for line in table.splitlines()]
    assert [row[:4] for row in rows[1:3]] == [
        ["all_reduce", "2", "64", "B"],  # 4 x 4 numbers over 2 devices: 2 * 64 / 2
        ["all_reduce", "4", "24", "B"],  # 4 numbers over 4 devices: 2 * 16 * 3 / 4
    ]
    assert f"dot_general at {folder / 'model.py'}:7" in table
    assert rows[3] == "in all 88 B per device and run".split()


def _flops(head: str) -> str:
    number = head.splitlines()[-1].split()[1]
    assert 128 <= int(number) <= 300
    return number


def test_a_size_over_two_axes_and_arguments_by_name(call: Call, folder: Path) -> None:
    types = ("f32[8@(x,y),3]", "scale=f32[]")
    out = call("inspect", "model.py:affine", "--args", *types, "--mesh", "x=2,y=2").out
    assert "  input    args[0]: f32[8@(x,y),3]\n  input    kwargs['scale']: f32[]\n" in out
    assert "  result   result: f32[8@(x,y),3]\n" in out
    assert out.endswith("\n\nno communication\n")


def test_explicit_axes(call: Call, folder: Path) -> None:
    types = ("f32[16@x,8]", "f32[8,4@x]")
    on_mesh = ("--mesh", "x=4", "--explicit")
    status, out, err = call("inspect", "model.py:mismatch", "--args", *types, *on_mesh)
    assert (status, out) == (1, "")
    assert "dot_general operation with inputs: f32[16@x,8], f32[8,4@x]" in err
    assert "names a mesh axis twice" in err
    out = call("inspect", "model.py:mismatch", "--args", "f32[16@x,8]", "f32[8,4]", *on_mesh).out
    assert "  result   result: f32[16@x,4]\n" in out


def test_without_a_mesh_it_is_of_one_device(call: Call, folder: Path) -> None:
    out = call(*PREDICT, "f32[16,8]", "f32[8,4]").out
    assert "mesh" not in out
    assert "  result   result['score']: f32[16,4]\n" in out
    assert out.endswith("\n\nno communication\n")


def test_as_many_devices_as_the_mesh_needs(folder: Path) -> None:
    command = [sys.executable, "-m", "xpr", *PREDICT, "f32[64@x,8@y]", "f32[8,4]"]
    done = subprocess.run(
        [*command, "--mesh", "x=32,y=4"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "mesh       x=32, y=4, 128 devices\n" in done.stdout
    assert "  result   result['score']: f32[64@x,4]\n" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("f32[6@x,8]", "f32[8,4]", "--mesh", "x=4"),
            "axis 0 of 'f32[6@x,8]', of size 6, cannot be cut evenly over x, of size 4",
        ),
        (
            ("f32[12@(x,y),8]", "f32[8,4]", "--mesh", "x=4,y=2"),
            "axis 0 of 'f32[12@(x,y),8]', of size 12, cannot be cut evenly over x, y, of size 8",
        ),
        (
            ("f32[8@z,8]", "f32[8,4]", "--mesh", "x=4,y=2"),
            "'f32[8@z,8]' names the axis z, and the mesh has x=4, y=2",
        ),
        (
            ("f32[8@x,8]", "f32[8,4]"),
            "'f32[8@x,8]' is sharded over x, and there is no mesh: `xpr inspect` takes one, as in "
            "--mesh x=4,y=2",
        ),
        (("f32[b,8]", "f32[8,4]"), "sizes must be numbers to be looked into, got (b, 8)"),
        (("--mesh", "x"), "a mesh is written like x=4,y=2, got 'x'"),
        (("--mesh", "x=2,x=4"), "a mesh is written like x=4,y=2, got 'x=2,x=4'"),
        (("--mesh", "x=0"), "a mesh is written like x=4,y=2, got 'x=0'"),
        (("--explicit",), "--explicit is about the axes of a mesh: give one by --mesh"),
        (
            ("--mesh", "x=16"),
            "a mesh of x=16 requires 16 devices, and this process has 8",
        ),
    ],
)
def test_bad_command_lines(
    call: Call, folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert call(*PREDICT, *arguments) == (2, "", f"xpr inspect: {message}\n")


def test_an_axis_twice(call: Call, folder: Path) -> None:
    status, out, err = call(*PREDICT, "f32[8@x,8@x]", "f32[8,4]", "--mesh", "x=4")
    assert (status, out) == (2, "")
    assert "has duplicate entries for `x`" in err


def test_files_have_no_mesh(call: Call, folder: Path) -> None:
    message = (
        "xpr inspect: --args, --mesh and --explicit are for functions, named like model.py:f\n"
    )
    assert call("inspect", "model.vmfb", "--mesh", "x=4") == (2, "", message)


def test_compiled_files_are_of_one_device(call: Call, folder: Path) -> None:
    compile_ = ("compile", "model.py:predict", "--args", "f32[8@x,8]", "f32[8,4]", "-o", "f.vmfb")
    status, _, err = call(*compile_)
    assert status == 2
    assert "'f32[8@x,8]' is sharded over x, and there is no mesh" in err
