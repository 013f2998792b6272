"""`xpr cache`: what is listed, removed and found damaged."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from xpr.lowering.cache import CompileCache

from .conftest import Call

KEYS = [hashlib.sha256(bytes([i])).digest() for i in range(4)]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CompileCache:
    monkeypatch.setenv("XPR_CACHE", "1")
    monkeypatch.setenv("XPR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("XPR_CACHE_MAX_BYTES", raising=False)
    return CompileCache(tmp_path / "cache")


def _fill(cache: CompileCache) -> None:
    for i, key in enumerate(KEYS):
        cache.put(key, bytes(1000 * i))


def test_an_empty_cache(call: Call, cache: CompileCache) -> None:
    where = cache.directory
    assert call("cache") == (0, f"{where}: 0 entries, 0 bytes of at most 2.1 GB\n", "")
    assert call("cache", "verify") == (0, f"{where}: 0 entries checked, 0 damaged\n", "")
    assert call("cache", "clear") == (0, f"{where}: 0 entries removed\n", "")
    assert not where.exists()


def test_entries_are_listed_and_cleared(call: Call, cache: CompileCache) -> None:
    _fill(cache)
    (cache.directory / "notes.txt").write_text("mine")
    status, out, err = call("cache", "ls")
    assert (status, err) == (0, "")
    *lines, total = out.splitlines()
    assert {line.split()[0] for line in lines} == {key.hex()[:16] for key in KEYS}
    assert all(line.endswith("just now") for line in lines)
    assert "4 entries, 6.3 kB of" in total
    assert call("cache", "clear") == (0, f"{cache.directory}: 4 entries removed\n", "")
    assert cache.entries() == []
    assert (cache.directory / "notes.txt").read_text() == "mine"


def test_damaged_entries_are_reported_and_removed(call: Call, cache: CompileCache) -> None:
    _fill(cache)
    content = bytearray(cache.path(KEYS[1]).read_bytes())
    content[-1] ^= 1
    cache.path(KEYS[1]).write_bytes(content)
    cache.path(KEYS[2]).chmod(0o666)
    status, out, err = call("cache", "verify")
    assert (status, err) == (1, "")
    assert sorted(out.splitlines()[:-1]) == sorted(
        [
            f"{KEYS[1].hex()}: damaged, removed",
            f"{KEYS[2].hex()}: cannot be read, or others may change it, removed",
        ]
    )
    assert out.splitlines()[-1].endswith(": 4 entries checked, 2 damaged")
    assert {entry.key for entry in cache.entries()} == {KEYS[0], KEYS[3]}
    assert call("cache", "verify").status == 0


def test_a_cache_that_is_switched_off(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XPR_CACHE", "0")
    assert call("cache") == (1, "", "xpr cache: the cache is switched off by XPR_CACHE\n")


def test_a_cache_is_shipped(call: Call, cache: CompileCache, tmp_path: Path) -> None:
    _fill(cache)
    cache.put_program(KEYS[0], b"facts")
    cache.put_program(KEYS[2], b"others")
    cache.put_sources(KEYS[3], b"of this machine")
    file, where = tmp_path / "cache.tar.gz", cache.directory
    assert call("cache", "export", str(file)) == (0, f"{file}: 4 entries from {where}\n", "")
    contents = {key: cache.get(key) for key in KEYS}
    cache.clear()
    assert cache.programs() == []
    status, out, _ = call("cache", "import", str(file))
    assert (status, out) == (0, f"{where}: 4 entries added from {file}, 0 damaged\n")
    assert {key: cache.get(key) for key in KEYS} == contents
    assert [cache.program(key) for key in KEYS[:3]] == [b"facts", None, b"others"]
    assert cache.sources(KEYS[3]) is None


def test_damaged_and_foreign_files_are_not_imported(
    call: Call, cache: CompileCache, tmp_path: Path
) -> None:
    cache.put(KEYS[0], b"sound")
    content = bytearray(cache.path(KEYS[0]).read_bytes())
    content[-1] ^= 1
    name = cache.path(KEYS[0]).relative_to(cache.directory).as_posix()
    cache.clear()
    file = tmp_path / "bad.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        for path in (name, "../outside.vmfb", f"{tmp_path}/outside.vmfb", "ab/other.txt"):
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo(name)
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    status, out, _ = call("cache", "import", str(file))
    assert (status, out) == (1, f"{cache.directory}: 0 entries added from {file}, 5 damaged\n")
    assert cache.entries() == []
    assert not (tmp_path / "outside.vmfb").exists()
    file.write_bytes(b"something else")
    status, _, err = call("cache", "import", str(file))
    assert status == 1
    assert f"{file} is no exported cache" in err
    assert call("cache", "import", str(tmp_path / "absent")).status == 1


def test_a_script_fills_the_cache(
    call: Call, cache: CompileCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, xpr, xpr.numpy as jnp\n"
        "print(xpr.jit(lambda x: x * 2)(jnp.ones(int(sys.argv[1]))).sum())\n"
    )
    status, out, _ = call("cache", "warm", str(script), "3")
    assert (status, out) == (0, f"{cache.directory}: 1 entry added by {script}\n")
    script.write_text("raise SystemExit(3)")
    status, _, err = call("cache", "warm", str(script))
    assert status == 1
    assert f"{script} ended with status 3" in err


@pytest.mark.parametrize("arguments", [("ls", "x"), ("warm",), ("export",), ("import", "a", "b")])
def test_arguments_that_do_not_fit(
    call: Call, cache: CompileCache, arguments: tuple[str, ...]
) -> None:
    assert call("cache", *arguments).status == 2
    assert cache.entries() == []
