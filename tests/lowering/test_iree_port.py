"""The report on a release of IREE: what holds, what changed, what is to be decided."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from xpr.lowering.iree import compiler_library, port, shortcuts, versions
from xpr.lowering.iree.port import FIXED, RIGHT

TEST = "tests.lowering.test_region_results.test_without_the_pass"


def test_facts_of_the_installed_release_hold() -> None:
    found = dict(port.facts())
    assert len(found) > 30
    assert {name: state for name, state in found.items() if state != RIGHT} == {}


def test_a_fact_that_does_not_hold_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    library = compiler_library.load()
    wrong = dataclasses.replace(
        library.version, timepoints="iree-no-such-pass", unused_plugins=("no_such_plugin",)
    )
    monkeypatch.setattr(library, "version", wrong)
    found = {name: state for name, state in port.facts() if state != RIGHT}
    assert set(found) == {"passes of timepoints", "plugin no_such_plugin"}
    assert "no-such-pass" in found["passes of timepoints"]


def test_changes_against_another_release() -> None:
    before = {"facts": {"a": RIGHT, "b": "no such pass"}, "guards": {"tests that pass": "7"}}
    now = {
        "facts": {"a": "no such pass", "b": RIGHT},
        "guards": {"tests that pass": "6", TEST: FIXED},
        "shortcuts": {"tiles": "declines: x"},
    }
    assert sorted(port.changes(now, before)) == [
        "facts: a: right -> no such pass",
        "facts: b: no such pass -> right",
        f"guards: {TEST}: right -> {FIXED}",
    ]
    assert port.changes(now, now) == []


def test_decisions_that_are_left() -> None:
    report = {
        "facts": {"release": "3.99.0 is not tested", "passes of timepoints": "no such pass"},
        "shortcuts": {"tiles": "declines: x", "objects": RIGHT},
        "guards": {TEST: FIXED, "tests that pass": "7"},
        "operations": {"tests.test_op_table.add, shortcuts off": "differs"},
    }
    assert port.decisions(report, "3.99.0") == [
        "describe 3.99 in lowering/iree/versions/, from the nearest one",
        "fact: passes of timepoints: no such pass",
        "shortcut tiles: correct its facts, or list it in `without`: declines: x",
        f"fault fixed ({TEST}): `until=(3, 99)` for region_results",
        "operation: tests.test_op_table.add, shortcuts off: differs",
    ]
    assert port.decisions({}, "3.13.9") == [
        "add 3.13.9 to `tested` of 3.13, once all below is settled"
    ]
    assert port.decisions({"facts": {"release": RIGHT}}, "3.13.0") == []


def test_a_report_is_saved_and_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(port, "SECTIONS", {"facts": lambda: [("a", RIGHT), ("b", "gone")]})
    before, saved = tmp_path / "3.12.json", tmp_path / "now.json"
    before.write_text(json.dumps({"facts": {"a": RIGHT, "b": RIGHT}}))
    assert port.main(["--against", str(before), "--save", str(saved)]) == 1
    said = capsys.readouterr().out
    assert "facts: b: right -> gone" in said
    assert "fact: b: gone" in said
    assert json.loads(saved.read_text()) == {"facts": {"a": RIGHT, "b": "gone"}}


def test_tests_that_fail_are_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "test_some.py"
    file.write_text(
        "import pytest\n"
        f"def test_fixed():\n    assert 1 == 2, {FIXED!r}\n"
        "def test_wrong():\n    assert 1 == 2, 'other'\n"
        "def test_right():\n    pass\n"
        "@pytest.mark.skip(reason='no')\ndef test_skipped():\n    pass\n"
    )
    found = dict(port._tests([str(file), "-c", "/dev/null", f"--rootdir={tmp_path}"]))
    states = {name.rpartition(".")[2]: state for name, state in found.items()}
    assert states["test_fixed"] == FIXED
    assert states["test_wrong"].startswith("AssertionError: other")
    assert states["tests that pass"] == states["tests that are skipped"] == "1"


def test_the_report_of_the_release_before_is_compared() -> None:
    assert port._baseline("3.13.0") == port.BASELINES / "3.12.json"
    assert port._baseline("3.99.0") == port.BASELINES / "3.13.json"
    assert port._baseline("3.12.0") == port.BASELINES / "3.12.json"
    for name in versions.KNOWN:
        report = json.loads((port.BASELINES / f"{name}.json").read_text(encoding="utf-8"))
        assert set(report) <= set(port.SECTIONS)
        assert set(report["shortcuts"]) == {"none", "all", *shortcuts.ALL}
        assert set(report["shortcuts"].values()) == {RIGHT}
