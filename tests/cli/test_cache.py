"""`xpr cache`: what is listed, removed and found damaged."""

from __future__ import annotations

import hashlib
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
