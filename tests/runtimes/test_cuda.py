"""What NVIDIA GPUs tell of themselves, by a driver that is pretended, and the code they get."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

import xpr
from tests.lowering.gpu_util import operand, ptx_of
from xpr.dispatch import known_programs
from xpr.dispatch.compiling import target_of
from xpr.interpreters.physical import physical_program
from xpr.lowering.targets import get_target
from xpr.runtimes import _cuda_features
from xpr.runtimes._cuda_features import CudaFeatures, compiled_for
from xpr.runtimes.cuda import CudaDevice, CudaRuntime

_UUID = bytes(range(16))


class Driver:
    """The functions of the CUDA driver, of a machine with some GPUs."""

    def __init__(self, *capabilities: tuple[int, int], version: int = 13_000, fails: str = ""):
        self._capabilities = capabilities
        self._version = version
        self._fails = fails

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            if name == self._fails:
                return 100
            getattr(self, f"_{name}")(*arguments)
            return 0

        return call

    def _cuInit(self, flags: int) -> None:
        assert flags == 0

    def _cuDriverGetVersion(self, out: Any) -> None:
        out._obj.value = self._version

    def _cuDeviceGetCount(self, out: Any) -> None:
        out._obj.value = len(self._capabilities)

    def _cuDeviceGet(self, out: Any, index: int) -> None:
        out._obj.value = index

    def _cuDeviceGetAttribute(self, out: Any, attribute: int, device: Any) -> None:
        out._obj.value = self._capabilities[device.value][attribute - 75]

    def _cuDeviceTotalMem_v2(self, out: Any, device: Any) -> None:
        out._obj.value = (80 + device.value) << 30

    def _cuDeviceGetUuid(self, out: Any, device: Any) -> None:
        ctypes.memmove(out._obj, bytes([device.value, *_UUID[1:]]), 16)


def _device(features: CudaFeatures, uuid: str = _UUID.hex()) -> CudaDevice:
    runtime: Any = SimpleNamespace(
        name="cuda", platform="cuda", target="cuda", features={uuid: features}
    )
    dashed = "-".join((uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:]))
    return CudaDevice(runtime, 0, {"name": "NVIDIA H100", "path": f"GPU-{dashed}"})


def test_the_driver_tells_of_each_device() -> None:
    found = _cuda_features.query(Driver((9, 0), (8, 6), version=12_020))
    assert list(found) == [bytes([i, *_UUID[1:]]).hex() for i in range(2)]
    assert list(found.values()) == [
        CudaFeatures(90, 80 << 30, 12_020),
        CudaFeatures(86, 81 << 30, 12_020),
    ]
    with pytest.raises(RuntimeError, match="cuInit failed with CUresult 100"):
        _cuda_features.query(Driver((9, 0), fails="cuInit"))


def test_the_newest_architecture_that_compiler_and_driver_know() -> None:
    assert [compiled_for(n) for n in (60, 72, 75, 80, 87, 89, 90, 120)] == [
        *("sm_60", "sm_60", "sm_75", "sm_80", "sm_86", "sm_89", "sm_89", "sm_89")
    ]
    assert compiled_for(90, 12_030) == "sm_86"
    with pytest.raises(ValueError, match="for GPUs from sm_60 on, and this one is sm_52"):
        compiled_for(52)
    with pytest.raises(ValueError, match=r"driver is one of CUDA 11\.4, .* of CUDA 11\.6 or later"):
        compiled_for(90, 11_040)


def test_a_device_says_what_it_is_and_what_it_runs() -> None:
    device = _device(CudaFeatures(90, 80 << 30, 13_000))
    assert device.features() == (
        "sm_90, programs are compiled for sm_89, the newest that the compiler knows"
    )
    assert device.compute_capability == "9.0"
    assert device.memory_stats() == {
        "bytes_in_use": 0,
        "peak_bytes_in_use": 0,
        "bytes_limit": 80 << 30,
    }
    older = _device(CudaFeatures(90, 80 << 30, 12_000))
    assert older.features().endswith(
        "compiled for sm_86, the newest that a driver of CUDA 12.0 reads"
    )
    assert _device(CudaFeatures(80, 0, 12_000)).features() == "sm_80"


def test_what_iree_tells_where_the_driver_s_list_does_not_have_a_device() -> None:
    told = "\n- gpu-compute-capability: 8.6\n\n- launch-max-block-dims: (1024, 1024, 64)"
    runtime: Any = SimpleNamespace(platform="cuda", features={}, describe=lambda info: told)
    assert CudaDevice(runtime, 0, {"name": "NVIDIA"}).capabilities.compiled_for == "sm_86"
    runtime.describe = lambda info: "nothing"
    with pytest.raises(RuntimeError, match="does not tell the compute capability"):
        CudaDevice(runtime, 0, {})


def test_programs_are_compiled_for_the_device_s_architecture() -> None:
    devices = [_device(CudaFeatures(n, 0, 13_000)) for n in (75, 80, 90)]
    closed = physical_program(xpr.make_jaxpr(lambda x: x * 2)(operand(4)))
    keys = {known_programs.key_of(closed, "f", device, ()) for device in devices}
    assert len(keys) == 3
    assert None not in keys
    for device, expected in zip(devices, ("sm_75", "sm_80", "sm_89"), strict=True):
        target = target_of(device)
        assert f".target {expected}" in ptx_of(lambda x: x * 2, operand(4), target=target)
    assert get_target("cuda").for_device is not None


def test_without_a_driver_the_runtime_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(RuntimeError, match=r"the CUDA driver .* cannot be loaded"):
        CudaRuntime()
