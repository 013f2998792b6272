"""The native part: found where it was built, left alone when asked, and never half used."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from xpr.runtimes import extension


def _fake(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    monkeypatch.setitem(sys.modules, "xpr.runtimes._native", module)


def _module(interface: int) -> ModuleType:
    module = ModuleType("xpr.runtimes._native")
    module.interface = interface  # type: ignore[attr-defined]
    module.build_info = lambda: "some compiler"  # type: ignore[attr-defined]
    return module


def test_an_extension_of_these_sources_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    module = _module(extension.INTERFACE)
    _fake(monkeypatch, module)
    for choice in ("", "1", "calls", "check"):
        found = extension.find(choice)
        assert found.module is module
        assert found.checks == (choice == "check")
    assert extension.find("1").describe() == "some compiler"
    assert extension.find("1").executor is module
    assert extension.find("calls").describe() == "some compiler, programs are run by IREE"
    assert extension.find("calls").executor is None
    for runs, same in ((True, "1"), (False, "calls")):
        monkeypatch.setattr(extension, "RUNS_PROGRAMS", runs)
        assert extension.find("").executor is extension.find(same).executor
    assert extension.find("check").describe() == "some compiler, checked against IREE"
    left = extension.find("0")
    assert left.module is None
    assert left.describe() == "not used: XPR_NATIVE=0"


def test_an_extension_of_other_sources_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    _fake(monkeypatch, _module(extension.INTERFACE + 1))
    assert extension.find("").module is None
    assert "built from other sources" in extension.find("").describe()
    with pytest.raises(ImportError, match=r"XPR_NATIVE=1 asks .* built from other sources"):
        extension.find("1")


def test_without_an_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    _fake(monkeypatch, None)  # as where it cannot be imported
    assert extension.find("").module is None
    assert "not built here" in extension.find("").describe()
    with pytest.raises(ImportError, match=r"XPR_NATIVE=check asks .* not built here"):
        extension.find("check")


def test_a_choice_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="XPR_NATIVE must be 0, 1, calls or check, got 'yes'"):
        extension.find("yes")


def test_reports_say_which_path_runs() -> None:
    source = "import xpr; print(xpr.print_environment_info(return_string=True))"
    done = subprocess.run(
        [sys.executable, "-c", source],
        env={"XPR_NATIVE": "0", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "native part: not used: XPR_NATIVE=0" in done.stdout.splitlines()
