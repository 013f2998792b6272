"""Programs in C for other processors, run by emulators where these are installed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from xpr.lowering.no_runtime.elf import ElfObject

from .harness import WARNINGS, run_tool, save_model
from .programs import PROGRAMS

BOARD = Path(__file__).parents[3] / "examples" / "microcontroller"
ARM = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
BARE = (
    *("-ffunction-sections", "-fdata-sections", "-nostartfiles"),
    *("-Wl,--gc-sections,--no-warnings", "--specs=nano.specs", "--specs=nosys.specs"),
)


def _needs(*tools: str) -> pytest.MarkDecorator:
    missing = [t for t in tools if shutil.which(t) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed")


def _sources(folder: Path) -> list[Path]:
    return [folder / "main.c", folder / "model.c", *sorted(folder.glob("*.o"))]


@_needs("aarch64-linux-gnu-gcc", "qemu-aarch64")
def test_aarch64(tmp_path: Path) -> None:
    names = ("tanh", "attention", "train", "newton", "swapping", "branch2", "scanned", "sorted")
    save_model(tmp_path, {name: PROGRAMS[name] for name in names}, target="aarch64-linux")
    program = tmp_path / "run"
    flags = (*WARNINGS, "-O2", "-static")
    run_tool("aarch64-linux-gnu-gcc", *flags, *_sources(tmp_path), "-o", program)
    assert run_tool("qemu-aarch64", program).count("the expected results") == len(names)


@_needs("arm-none-eabi-gcc", "qemu-system-arm")
def test_a_cortex_m4(tmp_path: Path) -> None:
    names = ("tanh", "train", "swapping", "branch0", "random", "sorted")
    save_model(tmp_path, {name: PROGRAMS[name] for name in names}, target="cortex-m4")
    program = tmp_path / "run.elf"
    flags = (*ARM, *WARNINGS, "-Wno-pedantic", "-O2", *BARE, "-T", BOARD / "board.ld")
    run_tool("arm-none-eabi-gcc", *flags, BOARD / "board.c", *_sources(tmp_path), "-o", program)
    out = run_tool(
        *("timeout", "60", "qemu-system-arm", "-M", "mps2-an386", "-nographic"),
        *("-semihosting-config", "enable=on,target=native", "-kernel", program),
    )
    assert out.count("the expected results") == len(names)


# The numbers of processors in ELF, and the bytes of a pointer.
_MACHINES = {
    "x86_64-v2": (62, True),
    "riscv64": (243, True),
    "armv7-linux": (40, False),
    "cortex-m7": (40, False),
    "rv32imc": (243, False),
}


@pytest.mark.parametrize("name", _MACHINES)
def test_objects_for(name: str, tmp_path: Path) -> None:
    save_model(tmp_path, {"tanh": PROGRAMS["tanh"]}, target=name)
    made = ElfObject((tmp_path / "model.o").read_bytes())
    assert (made.machine, made.is_wide) == _MACHINES[name]
    assert 0 < made.code_size() < 8192
