"""Finding runtimes, their devices, and what happens when one does not work."""

from __future__ import annotations

import copy
import importlib.machinery
import importlib.metadata
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xpr
from xpr.runtimes import registry
from xpr.runtimes.base import Buffer, Device, Executable, ExecutableSignature, Runtime, type_str
from xpr.runtimes.cpu import CpuRuntime
from xpr.runtimes.host import HostBuffer

BUILT_IN = ["cpu", "reference", "vmvx", "vulkan", "cuda", "rocm", "metal"]


class Fake(Runtime):
    """A runtime with two devices, the second of which belongs to another process."""

    name = "fake"
    platform = "fake"
    target = "cpu"
    priority = 10

    def __init__(self) -> None:
        self._devices = (Device(self, 0, "pretended"), Device(self, 1, "pretended", 1))

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def buffer_from_host(
        self, array: np.ndarray[Any, Any], device: Device, *, copy: bool
    ) -> Buffer:
        return HostBuffer(array, device)

    def load(self, program: Any, signature: ExecutableSignature, device: Device) -> Executable:
        raise NotImplementedError("this runtime runs nothing")


class Empty(Fake):
    """A runtime without devices."""

    def devices(self) -> tuple[Device, ...]:
        return ()


class Broken(Fake):
    """A runtime whose driver is missing."""

    def __init__(self) -> None:
        raise OSError("libpretended.so: cannot open shared object file")


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A registry in which nothing has started, with entry points that a test may add."""
    points: dict[str, str] = {}

    def entry_points(*, group: str) -> list[importlib.metadata.EntryPoint]:
        assert group == "xpr.runtimes"
        return [importlib.metadata.EntryPoint(n, v, group) for n, v in points.items()]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    monkeypatch.setattr(registry, "_may_be_offered", lambda: True)
    monkeypatch.setattr(registry, "_started", {})
    monkeypatch.setattr(registry, "_failed", {})
    monkeypatch.setattr(registry, "_factories", None)
    monkeypatch.setattr(registry, "_num_cpu_devices", None)
    monkeypatch.delenv("XPR_NUM_CPU_DEVICES", raising=False)
    monkeypatch.delenv("XPR_PLATFORMS", raising=False)
    return points


@pytest.mark.parametrize("name", ["a-1.0.dist-info", "b.egg-info"])
def test_packages_that_offer_runtimes_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path / "no folder"), str(tmp_path)])
    monkeypatch.setattr(sys, "meta_path", [importlib.machinery.PathFinder])
    (tmp_path / "c.egg-info").write_text("of old: a file")
    (tmp_path / name).mkdir()
    assert not registry._may_be_offered()
    points = tmp_path / name / "entry_points.txt"
    points.write_text("[console_scripts]\nx = y:z\n")
    assert not registry._may_be_offered()
    points.write_text("[xpr.runtimes]\nmine = there:Runtime\n")
    assert registry._may_be_offered()


def test_archives_and_other_finders_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "meta_path", [importlib.machinery.PathFinder])
    (tmp_path / "packages.zip").write_bytes(b"")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "packages.zip")])
    assert registry._may_be_offered()
    monkeypatch.setattr(sys, "path", [])
    assert not registry._may_be_offered()

    class Finder:
        def find_distributions(self, context: object = None) -> list[object]:
            raise AssertionError(context)

    monkeypatch.setattr(sys, "meta_path", [Finder()])
    assert registry._may_be_offered()


def here(name: str) -> str:
    return f"{__name__}:{name}"


def test_built_in_runtimes(fresh: dict[str, str]) -> None:
    assert registry.live() == {}
    assert registry.known() == BUILT_IN
    assert registry.default_backend() in BUILT_IN
    # Those of GPUs work on some machines.
    assert {"cpu", "reference", "vmvx"} <= set(registry.backends()) <= set(BUILT_IN)
    assert registry.get_runtime("cpu") is registry.get_runtime("cpu")
    assert registry.live()["cpu"] is registry.get_runtime("cpu")
    assert set(registry.failures()) == set(BUILT_IN) - set(registry.backends())


def test_devices(fresh: dict[str, str]) -> None:
    (device,) = registry.devices()
    assert registry.devices("cpu") == [device]
    assert registry.local_devices() == [device]
    assert registry.device_count() == registry.local_device_count() == 1
    assert (device.id, device.platform, device.device_kind, device.process_index) == (
        0,
        "cpu",
        "cpu",
        0,
    )
    assert (repr(device), str(device)) == ("CpuDevice(id=0)", "cpu:0")
    assert device.runtime is device.client is registry.get_runtime("cpu")
    assert device.local_hardware_id == 0
    assert repr(device.runtime) == "<CpuRuntime 'cpu'>"
    assert len({device, *registry.devices("reference")}) == 2
    stats = registry.devices("reference")[0].memory_stats()
    assert stats is not None
    assert stats["bytes_in_use"] >= 0
    assert copy.deepcopy([device]) == [device]
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(device)


def test_unknown_backend(fresh: dict[str, str]) -> None:
    message = r"Unknown backend tpu\. Available backends are \['cpu', 'reference', "
    for ask in (registry.devices, registry.get_runtime, registry.device_count):
        with pytest.raises(RuntimeError, match=message):
            ask("tpu")


def test_runtimes_of_installed_packages(fresh: dict[str, str]) -> None:
    fresh["fake"] = here("Fake")
    assert registry.known() == [*BUILT_IN, "fake"]
    assert registry.default_backend() == "fake"
    assert registry.device_count() == 2
    assert [repr(d) for d in registry.local_devices()] == ["FakeDevice(id=0)"]
    assert [d.id for d in registry.local_devices(process_index=1)] == [1]
    assert registry.local_device_count("fake") == 1


def test_a_package_cannot_replace_a_built_in_runtime(fresh: dict[str, str]) -> None:
    fresh["cpu"] = here("Broken")
    assert isinstance(registry.get_runtime("cpu"), CpuRuntime)


def test_broken_runtimes_stand_in_nobodys_way(fresh: dict[str, str]) -> None:
    fresh.update(
        broken=here("Broken"),
        empty=here("Empty"),
        gone="no_such_package_anywhere:Runtime",
        other="builtins:dict",
    )
    assert {"cpu", "reference", "vmvx"} <= set(registry.backends()) <= set(BUILT_IN)
    assert registry.default_backend() == "cpu"
    ours = {name: why for name, why in registry.failures().items() if name not in BUILT_IN}
    assert ours == {
        "broken": "OSError: libpretended.so: cannot open shared object file",
        "empty": "RuntimeError: the empty runtime found no device",
        "gone": "ModuleNotFoundError: No module named 'no_such_package_anywhere'",
        "other": "TypeError: the entry point 'other' of xpr.runtimes must give a Runtime, got dict",
    }
    with pytest.raises(
        RuntimeError, match="Unable to initialize backend broken: OSError: libpretended"
    ) as caught:
        registry.devices("broken")
    assert isinstance(caught.value.__cause__, OSError)


def test_wished_platforms(fresh: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    fresh["broken"] = here("Broken")
    monkeypatch.setenv("XPR_PLATFORMS", "broken,cpu")
    assert registry.default_backend() == "cpu"
    monkeypatch.setenv("XPR_PLATFORMS", "broken")
    with pytest.raises(RuntimeError, match="No backend of XPR_PLATFORMS works: broken: OSError"):
        registry.default_backend()


def test_number_of_cpu_devices(fresh: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XPR_NUM_CPU_DEVICES", "3")
    assert registry.num_cpu_devices() == 3
    registry.set_num_cpu_devices(2)
    registry.set_num_cpu_devices(4)
    assert registry.num_cpu_devices() == 4
    assert [d.id for d in registry.devices("cpu")] == [0, 1, 2, 3]
    registry.set_num_cpu_devices(4)
    with pytest.raises(RuntimeError, match=r"the cpu runtime has started with 4, got 2"):
        registry.set_num_cpu_devices(2)
    assert registry.num_cpu_devices() == 4


def test_wrong_numbers_of_cpu_devices(
    fresh: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in (0, -1):
        with pytest.raises(ValueError, match=f"must be a positive integer, got {n}"):
            registry.set_num_cpu_devices(n)
    with pytest.raises(TypeError, match="float"):
        registry.set_num_cpu_devices(2.0)  # pyright: ignore[reportArgumentType]
    monkeypatch.setenv("XPR_NUM_CPU_DEVICES", "0")
    with pytest.raises(ValueError, match="XPR_NUM_CPU_DEVICES must be a positive integer, got '0'"):
        registry.num_cpu_devices()


def test_types_in_messages() -> None:
    assert type_str(((2, 3), np.dtype(np.float32))) == "float32[2,3]"
    assert type_str(((), np.dtype(bool))) == "bool[]"


def test_names_in_upper_and_lower_case(
    fresh: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh["Fake"] = f"{__name__}:Fake"
    assert registry.get_runtime("REFERENCE").name == "reference"
    assert registry.devices("Cpu") == registry.devices("cpu")
    assert registry.get_runtime("fake") is registry.get_runtime("Fake")
    with pytest.raises(RuntimeError, match=r"Unknown backend Nonesuch\. Available backends are"):
        registry.get_runtime("Nonesuch")
    monkeypatch.setenv("XPR_PLATFORMS", "FAKE,CPU")
    assert registry.default_backend() == "Fake"
    monkeypatch.setattr(registry, "_failed", dict.fromkeys(registry._GPUS, RuntimeError("away")))
    for name in ("GPU", "gpu", "Gpu"):
        with pytest.raises(RuntimeError, match="Unknown backend gpu: no GPU works on this machine"):
            registry.devices(name)


def test_programs_for_another_platform_in_upper_case() -> None:
    program = xpr.jit(lambda x: x + 1)
    lowered = program.lower(np.ones(3, np.float32), platform="CUDA")
    assert lowered.as_text() == program.lower(np.ones(3, np.float32), platform="cuda").as_text()
