"""The linker of compiled dispatches, and the libraries that it makes."""

from __future__ import annotations

import platform
import struct
import sys
from typing import Any

import numpy as np
import pytest

import xpr
import xpr.numpy as jnp
from tests.lowering.iree_util import needs_product_kernels, result
from xpr.lowering import module as lowering
from xpr.lowering import prebuilt, rules
from xpr.lowering.iree import driver, link_elf, objects
from xpr.lowering.iree.mlir import Mlir
from xpr.lowering.iree.post_passes import Change
from xpr.lowering.targets import get_target

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="code is linked in this way on Linux, for x86-64",
)

rules.load_all()
CPU = get_target("cpu")
X = np.linspace(-3.0, 3.0, 64, dtype=np.float32).reshape(8, 8)


def compiled(function: Any, *args: Any) -> tuple[bytes, list[bytes]]:
    """The module, and the libraries that are in it."""
    lowered = lowering.lower_jaxpr_to_module(
        xpr.make_jaxpr(function)(*args), CPU, name=function.__name__
    )
    libraries: list[bytes] = []

    def look(mlir: Mlir, module: int) -> None:
        for op in mlir.walk(module):
            if mlir.name(op) == "hal.executable.binary":
                libraries.append(mlir.data(op, "data"))

    module, said = driver.compile_module(
        lowered.text,
        CPU.flag_sets(lowered.hints)[0],
        name="program",
        verify=True,
        changes=[Change("look", 1, objects.TO, look)],
    )
    assert module is not None, said
    return module, libraries


def programs() -> dict[str, Any]:
    return {
        "sine": lambda x: jnp.sin(x) * 2.0 + 1.0,
        "product": lambda x: jnp.tanh(x @ x.T) @ x,
        "sorted": lambda x: jnp.sort(x, axis=1)[::-1] + jnp.sum(x),
        # These call functions of the C library.
        "remainder": lambda x: jnp.fmod(x, 0.7),
        "power": lambda x: jnp.abs(x) ** x,
    }


@pytest.mark.parametrize("name", programs())
def test_bits_are_those_of_the_library_that_the_compiler_links(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = programs()[name]
    module, _ = compiled(function, X)
    monkeypatch.setattr(objects, "is_possible", lambda flags: False)
    other, _ = compiled(function, X)
    np.testing.assert_array_equal(result(module, X), result(other, X))


def test_small_programs_leave_the_compilers_linker_and_c_library_out() -> None:
    _, (library,) = compiled(lambda x: x * 2.0 + 1.0, X)
    assert len(library) < 3000
    sections = struct.unpack_from("<H", library, 60)[0]
    assert sections == 1  # the compiler's linker names its sections


@needs_product_kernels
def test_functions_of_other_objects_are_linked_in() -> None:
    assert CPU.product_kernels is not None
    kind = CPU.product_kernels()
    assert kind is not None
    data = prebuilt.content(kind.replace("products", "library"))
    assert data is not None
    asked: list[str] = []

    def defining(name: str) -> bytes | None:
        asked.append(name)
        return prebuilt.defining(name)

    library = link_elf.link(data, defining)
    assert library[:4] == b"\x7fELF"
    assert len(asked) >= 4
    with pytest.raises(link_elf.UnlinkableError, match="outside of it"):
        link_elf.link(data)


def test_a_program_that_calls_the_c_library_goes_the_compilers_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(data: bytes, *_: object) -> bytes:
        raise link_elf.UnlinkableError("a test")

    monkeypatch.setattr(objects, "link", refuse)
    module, (library,) = compiled(lambda x: x * 2.0 + 1.0, X)
    assert struct.unpack_from("<H", library, 60)[0] > 1
    np.testing.assert_array_equal(result(module, X), X * 2.0 + 1.0)


def test_without_a_shell_a_program_goes_the_compilers_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "FLAGS", ("--iree-llvmcpu-system-linker-path=false",))
    module, _ = compiled(lambda x: x * 2.0 + 1.0, X)
    np.testing.assert_array_equal(result(module, X), X * 2.0 + 1.0)


@pytest.mark.parametrize("data", [b"", b"\x7fELF", bytes(200), b"\x7fELF\x02\x01\x01" + bytes(60)])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(link_elf.UnlinkableError):
        link_elf.link(data)
