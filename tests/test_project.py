"""The files around the library: what they promise is there, and what they show is true."""

import doctest
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.parser import HeaderParser
from importlib.util import find_spec
from pathlib import Path

import pytest

import xpr.version
from xpr.runtimes import extension as extension_of_xpr

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

# Folders that hold no file of the project, whatever tools left in them.
_NOT_OURS = {"__pycache__", "build", "dist"}


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def _setup_commands() -> list[str]:
    lines = [line for block in _blocks("sh") for line in block.splitlines()]
    return [line for line in lines if "pip install" in line]


def _python_files(folder: Path) -> set[str]:
    """Paths relative to ``folder``, through the links that stand in it."""
    found = set()
    for place, folders, files in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if name not in _NOT_OURS]
        relative = Path(place).relative_to(folder)
        found |= {(relative / name).as_posix() for name in files if name.endswith(".py")}
    return found


def test_readme_sets_up_with_two_commands() -> None:
    commands = _setup_commands()
    assert len(commands) == 2, commands
    for command in commands:
        assert command.startswith("python3 -m venv .venv && ")
    run, test = commands
    assert run.endswith("python examples/train_digits.py")
    assert ".[examples]" in run
    assert "-m pytest" in test
    assert ".[test]" in test


def test_readme_names_only_files_that_exist() -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
    folders = re.findall(r"`([a-z_/]+/)`", README)
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []


def test_readme_examples_are_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = "\n".join(_blocks("python"))
    example = doctest.DocTestParser().get_doctest(source, {}, "README.md", "README.md", 0)
    assert len(example.examples) >= 9
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(example, out=report.append)
    assert runner.failures == 0, "".join(report)
    assert (tmp_path / "affine.vmfb").stat().st_size > 0


def test_every_variable_of_the_settings_is_read_somewhere() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    sources = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("xpr/core", "lowering", "runtimes")
        for path in (ROOT / folder).rglob("*.py")
    )
    variables = re.findall(r"^\| `XPR_(\w+)` \|", page, flags=re.MULTILINE)
    assert len(variables) >= 6
    # A setting of xpr.config is named there in lower case, without the prefix.
    unread = [v for v in variables if f"XPR_{v}" not in sources and f'"{v.lower()}"' not in sources]
    assert unread == []


def test_ci_runs_the_test_command_of_the_readme() -> None:
    script = ROOT / ".ci" / "run"
    text = script.read_text(encoding="utf-8")
    assert text.startswith("#!/usr/bin/env bash\n")
    assert os.access(script, os.X_OK)
    selector = re.search(r"grep -E '([^']+)' README\.md", text)
    assert selector is not None
    chosen = [line for line in README.splitlines() if re.search(selector[1], line)]
    assert chosen == [_setup_commands()[1]]
    for check in ("ruff check", "ruff format --check", "pyright"):
        assert f"-m {check}" in text


def test_layout_lists_folders_that_exist() -> None:
    layout = (ROOT / "docs" / "layout.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`((?:[a-z_]+/)+)`", layout))
    assert {"xpr/core/", "xpr/dispatch/", "lowering/", "runtimes/"} <= listed
    assert [folder for folder in sorted(listed) if not (ROOT / folder).is_dir()] == []
    # The links are listed by what they lead to.
    ours = {
        f"xpr/{folder.name}/"
        for folder in (ROOT / "xpr").iterdir()
        if folder.is_dir() and not folder.is_symlink() and folder.name not in _NOT_OURS
    }
    assert sorted(ours - listed) == []


def test_links_lead_to_the_folders_at_the_top() -> None:
    for name in ("lowering", "runtimes"):
        link = ROOT / "xpr" / name
        assert link.is_symlink()
        assert os.readlink(link) == f"../{name}"
        assert link.resolve() == ROOT / name


def test_the_licence_is_whole_and_named() -> None:
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in licence
    assert "Version 2.0, January 2004" in licence
    assert "END OF TERMS AND CONDITIONS" in licence
    assert PROJECT["project"]["license"] == "Apache-2.0"


def test_jax_is_named_by_the_benchmarks_alone() -> None:
    project = PROJECT["project"]
    naming = {
        extra
        for extra, requirements in project["optional-dependencies"].items()
        if any(re.match(r"jax(lib)?\b", requirement) for requirement in requirements)
    }
    assert naming == {"bench"}
    assert not any(re.match(r"jax(lib)?\b", requirement) for requirement in project["dependencies"])


def _copy(folder: Path) -> Path:
    """A copy of the sources: building in place would leave files there."""
    copy = folder / "source"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "CMakeLists.txt"):
        (copy / name).write_bytes((ROOT / name).read_bytes())
    for name in ("lowering", "build_backend", "runtimes", "xpr"):
        _copy_sources(ROOT / name, copy / name)
    return copy


def _run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        env={**os.environ, **environment},
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


_PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")


def _wheel(folder: Path, **environment: str) -> Path:
    options = ("--no-deps", "--no-build-isolation", "--wheel-dir", folder)
    _run(*_PIP, "wheel", *options, _copy(folder), **environment)
    (wheel,) = folder.glob("xpr-*.whl")
    return wheel


_can_build = pytest.mark.skipif(
    find_spec("scikit_build_core") is None,
    reason="building a wheel without isolation needs scikit-build-core in this environment",
)


@_can_build
@pytest.mark.skipif(
    not all(shutil.which(tool) for tool in ("cmake", "c++")) or find_spec("nanobind") is None,
    reason="the native part is built with cmake, a C++ compiler and nanobind",
)
def test_a_wheel_carries_the_native_part(tmp_path: Path) -> None:
    with zipfile.ZipFile(_wheel(tmp_path)) as archive:
        (extension,) = (n for n in archive.namelist() if n.startswith("xpr/runtimes/_native."))
        archive.extract(extension, tmp_path)
        assert not [n for n in archive.namelist() if n.endswith((".cpp", ".h", "CMakeLists.txt"))]
    source = (
        "import importlib.util, sys\n"
        "spec = importlib.util.spec_from_file_location('_native', sys.argv[1])\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "print(module.interface)\n"
    )
    assert int(_run("-c", source, tmp_path / extension)) == extension_of_xpr.INTERFACE


@_can_build
def test_an_editable_install_comes_behind_what_pythonpath_names(tmp_path: Path) -> None:
    copy = _copy(tmp_path)
    target, other = tmp_path / "installed", tmp_path / "other"
    options = ("--no-deps", "--no-build-isolation", "--target", target)
    _run(*_PIP, "install", *options, "-e", copy, CC="/nonexistent", CXX="/nonexistent")
    (other / "xpr").mkdir(parents=True)
    (other / "xpr" / "__init__.py").write_text("")
    # Packages of the environment are found before those of the folder, hence -S.
    source = (
        "import importlib.util, site, sys\n"
        "site.addsitedir(sys.argv[1])\n"
        "print(importlib.util.find_spec('xpr').origin)\n"
    )
    for place, first in (("", copy), (str(other), other)):
        found = _run("-S", "-P", "-c", source, target, PYTHONPATH=place)
        assert found.strip() == str(first / "xpr" / "__init__.py")


@_can_build
def test_a_wheel_holds_the_real_files(tmp_path: Path) -> None:
    # Without a compiler, as on a machine that has none: it is whole but for the native part.
    wheel = _wheel(tmp_path, CC="/nonexistent", CXX="/nonexistent")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        python = {name.removeprefix("xpr/") for name in names if name.endswith(".py")}
        assert python == _python_files(ROOT / "xpr")
        assert "lowering/__init__.py" in python
        assert "xpr/py.typed" in names
        assert "xpr/lowering/iree/versions/vm_17.def" in names
        # Regular files, not links: the upper half of external_attr is the Unix mode.
        assert not [name for name in names if "_native." in name]
        modes = {archive.getinfo(f"xpr/{name}").external_attr >> 28 for name in python}
        assert modes == {0o10}
        for name in ("lowering/cache.py", "core/config.py"):
            assert archive.read(f"xpr/{name}") == (ROOT / "xpr" / name).read_bytes()

        tops = {name.split("/")[0] for name in names}
        assert {top for top in tops if not top.endswith(".dist-info")} == {"xpr"}
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        headers = HeaderParser().parsestr(archive.read(metadata).decode())
        assert headers["Version"] == xpr.version.__version__
        assert headers["License-Expression"] == "Apache-2.0"
        assert headers["Requires-Python"] == ">=3.11"
        assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)

    # Installed into a folder of its own, it has the command, which runs the files of that folder.
    target = tmp_path / "installed"
    _run(*_PIP, "install", "--no-deps", "--no-index", "--target", target, wheel)
    (command,) = (target / "bin").glob("xpr*")
    done = subprocess.run(
        [str(command), "compile", "model:missing", "-o", "m.vmfb", "--traceback"],
        env={**os.environ, "PYTHONPATH": str(target)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "xpr compile: there is no module 'model'; name a file with its ending .py\n"
    )


def _copy_sources(source: Path, target: Path) -> None:
    """Copy a source folder with its links kept as links, without what tools left in it."""
    target.mkdir()
    for entry in source.iterdir():
        if entry.is_symlink():
            (target / entry.name).symlink_to(os.readlink(entry))
        elif entry.is_dir():
            if entry.name not in _NOT_OURS:
                _copy_sources(entry, target / entry.name)
        elif entry.suffix in (".py", ".typed", ".cpp", ".def", ".h", ".txt"):
            (target / entry.name).write_bytes(entry.read_bytes())
