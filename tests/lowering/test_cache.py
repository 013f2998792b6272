"""The compile cache: what is stored is checked before it is used, whoever else is at work."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import platformdirs
import pytest

from xpr.lowering import cache as cache_module
from xpr.lowering.cache import DEFAULT_MAX_BYTES, CompileCache, default_cache
from xpr.lowering.cache_archive import export_cache, import_cache

KEY = hashlib.sha256(b"program").digest()
OTHER_KEY = hashlib.sha256(b"another program").digest()
PAYLOAD = bytes(range(256)) * 40

posix_only = pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX notions")


@pytest.fixture
def cache(tmp_path: Path) -> CompileCache:
    return CompileCache(tmp_path / "cache")


def _key(i: int) -> bytes:
    return hashlib.sha256(str(i).encode()).digest()


def _total(cache: CompileCache) -> int:
    return sum(path.stat().st_size for path in cache.directory.glob("*/*"))


def test_an_entry_comes_back(cache: CompileCache) -> None:
    assert cache.get(KEY) is None
    cache.put(KEY, PAYLOAD)
    assert cache.get(KEY) == PAYLOAD
    assert cache.get(OTHER_KEY) is None
    cache.put(KEY, PAYLOAD[:-1])
    assert cache.get(KEY) == PAYLOAD[:-1]
    cache.discard(KEY)
    assert cache.get(KEY) is None
    cache.discard(KEY)


def test_an_empty_payload_comes_back(cache: CompileCache) -> None:
    cache.put(KEY, b"")
    assert cache.get(KEY) == b""


def test_no_temporary_file_is_left(cache: CompileCache) -> None:
    cache.put(KEY, PAYLOAD)
    cache.put(OTHER_KEY, PAYLOAD)
    files = sorted(path for path in cache.directory.glob("*/*"))
    assert files == sorted([cache.path(KEY), cache.path(OTHER_KEY)])


@pytest.mark.parametrize("kept", [0, 1, 20, 83, 84, 85, -1])
def test_a_truncated_entry_is_refused_and_removed(cache: CompileCache, kept: int) -> None:
    cache.put(KEY, PAYLOAD)
    path = cache.path(KEY)
    path.write_bytes(path.read_bytes()[:kept])
    assert cache.get(KEY) is None
    assert not path.exists()
    cache.put(KEY, PAYLOAD)
    assert cache.get(KEY) == PAYLOAD


# One offset in each field of the header, the first and last bytes of the payload, one inside.
@pytest.mark.parametrize("offset", [0, 8, 12, 43, 44, 75, 76, 83, 84, 5000, -1])
@pytest.mark.parametrize("bit", [0, 7])
def test_a_flipped_bit_is_found(cache: CompileCache, offset: int, bit: int) -> None:
    cache.put(KEY, PAYLOAD)
    path = cache.path(KEY)
    content = bytearray(path.read_bytes())
    content[offset] ^= 1 << bit
    path.write_bytes(content)
    assert cache.get(KEY) is None
    assert not path.exists()


def test_appended_bytes_are_found(cache: CompileCache) -> None:
    cache.put(KEY, PAYLOAD)
    with cache.path(KEY).open("ab") as file:
        file.write(b"x")
    assert cache.get(KEY) is None


def test_an_entry_moved_to_another_key_is_refused(cache: CompileCache) -> None:
    cache.put(KEY, PAYLOAD)
    target = cache.path(OTHER_KEY)
    target.parent.mkdir(exist_ok=True)
    cache.path(KEY).rename(target)
    assert cache.get(OTHER_KEY) is None


@posix_only
def test_the_files_are_private(cache: CompileCache) -> None:
    previous = os.umask(0)
    try:
        cache.put(KEY, PAYLOAD)
    finally:
        os.umask(previous)
    modes = {
        path: stat.S_IMODE(path.stat().st_mode)
        for path in (cache.directory, cache.path(KEY).parent, cache.path(KEY))
    }
    assert list(modes.values()) == [0o700, 0o700, 0o600]


@posix_only
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_an_entry_that_others_may_write_is_refused(cache: CompileCache, mode: int) -> None:
    cache.put(KEY, PAYLOAD)
    cache.path(KEY).chmod(mode)
    assert cache.get(KEY) is None
    cache.put(KEY, PAYLOAD)
    assert cache.get(KEY) == PAYLOAD


@posix_only
def test_an_entry_of_another_user_is_refused(
    cache: CompileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.put(KEY, PAYLOAD)
    path = cache.path(KEY)
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
    else:
        # Only root can give a file away; to become somebody else is the same from the other side.
        monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    assert cache.get(KEY) is None


@posix_only
def test_a_symbolic_link_is_refused(cache: CompileCache, tmp_path: Path) -> None:
    cache.put(KEY, PAYLOAD)
    elsewhere = tmp_path / "elsewhere"
    cache.path(KEY).rename(elsewhere)
    cache.path(KEY).symlink_to(elsewhere)
    assert cache.get(KEY) is None


@posix_only
def test_a_fifo_or_directory_in_the_place_of_an_entry_does_not_block(cache: CompileCache) -> None:
    path = cache.path(KEY)
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    assert cache.get(KEY) is None
    path.unlink()
    path.mkdir()
    assert cache.get(KEY) is None


def test_an_unusable_directory_gives_one_warning(tmp_path: Path) -> None:
    # A file where the directory should be fails for root too, as a read-only directory would not.
    (tmp_path / "file").write_text("")
    cache = CompileCache(tmp_path / "file" / "cache")
    with pytest.warns(RuntimeWarning, match="compiled programs are not cached.*XPR_CACHE_DIR"):
        cache.put(KEY, PAYLOAD)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(KEY, PAYLOAD)
        cache.put(OTHER_KEY, PAYLOAD)
    assert cache.get(KEY) is None


@posix_only
def test_a_read_only_directory_is_still_read() -> None:
    """In a child that is not root: entries are read, and the one warning names the directory."""
    script = """
import os, shutil, tempfile, warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from xpr.lowering.cache import CompileCache

if os.geteuid() == 0:
    os.setegid(12345)
    os.seteuid(12345)
top = Path(tempfile.mkdtemp())
cache = CompileCache(top / "cache")
key, other = bytes(32), bytes([7]) * 32
try:
    cache.put(key, b"module")
    folders = (cache.path(key).parent, cache.directory)
    for folder in folders:
        folder.chmod(0o500)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert cache.get(key) == b"module"
        cache.put(other, b"x")
        cache.put(other, b"x")
        assert cache.get(other) is None
    for folder in folders:
        folder.chmod(0o700)
finally:
    shutil.rmtree(top)
assert str(cache.directory) in str(caught[0].message), caught[0].message
print(len(caught), caught[0].message)
"""
    assert _run(script).stdout.startswith("1 compiled programs are not cached: cannot write to")


@posix_only
def test_a_full_disk_gives_one_warning_and_leaves_no_file(tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk: the write fails half way."""
    script = f"""
import resource, warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from xpr.lowering.cache import CompileCache
cache = CompileCache(Path({str(tmp_path)!r}))
cache.put(bytes(32), b"small")
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for i in range(3):
        cache.put(bytes([i + 1]) * 32, bytes(20000))
        assert cache.get(bytes([i + 1]) * 32) is None
assert cache.get(bytes(32)) == b"small"
print(len(caught), len(list(Path({str(tmp_path)!r}).glob("*/*"))))
"""
    assert _run(script).stdout.split() == ["1", "1"]


def test_pruning_removes_what_was_used_longest_ago(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path, max_bytes=10 * 1084)
    now = time.time()
    for i in range(10):
        cache.put(_key(i), bytes(1000))
        # Entry 0 is the one used last, then 9, 8...
        age = 0 if i == 0 else 1000 * (10 - i)
        os.utime(cache.path(_key(i)), (now - age, now - age))
    assert all(cache.path(_key(i)).exists() for i in range(10))
    cache.put(_key(10), bytes(1000))
    assert _total(cache) <= 0.8 * cache.max_bytes
    kept = [i for i in range(11) if cache.get(_key(i)) is not None]
    assert kept == [0, 5, 6, 7, 8, 9, 10] or kept == [0, 4, 5, 6, 7, 8, 9, 10]


def test_a_hit_renews_an_entry(cache: CompileCache) -> None:
    cache.put(KEY, PAYLOAD)
    old = time.time() - 1e6
    os.utime(cache.path(KEY), (old, old))
    assert cache.get(KEY) == PAYLOAD
    assert time.time() - cache.path(KEY).stat().st_mtime < 100


def test_the_size_stays_bounded(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path, max_bytes=50_000)
    for i in range(200):
        cache.put(_key(i), bytes(2000))
        # The directory is measured each time 1/16 of the limit has been written.
        assert _total(cache) <= 50_000 * 17 / 16
    assert cache.get(_key(199)) == bytes(2000)


def test_an_entry_larger_than_the_limit_is_not_stored(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path, max_bytes=1000)
    cache.put(KEY, bytes(2000))
    assert cache.get(KEY) is None
    assert not list(tmp_path.iterdir())


def test_pruning_removes_files_of_dead_writers_only(cache: CompileCache) -> None:
    cache.put(KEY, PAYLOAD)
    fresh, stale = (cache.path(KEY).with_name(name) for name in ("xpr-a.tmp", "xpr-b.tmp"))
    for path in (fresh, stale):
        path.write_bytes(b"half")
    os.utime(stale, (1e9, 1e9))
    cache.prune()
    assert fresh.exists()
    assert not stale.exists()
    assert cache.get(KEY) == PAYLOAD


def test_pruning_leaves_other_files_alone(tmp_path: Path) -> None:
    """A user may point XPR_CACHE_DIR at a directory that holds other things."""
    cache = CompileCache(tmp_path, max_bytes=3000)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "1.vmfb").write_bytes(bytes(10_000))
    (tmp_path / "photos" / "old.tmp").write_bytes(b"draft")
    os.utime(tmp_path / "photos" / "old.tmp", (1e9, 1e9))
    for i in range(5):
        cache.put(_key(i), bytes(900))
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "photos" / "1.vmfb").stat().st_size == 10_000
    assert (tmp_path / "photos" / "old.tmp").exists()


def test_several_processes_write_and_prune_at_once(tmp_path: Path) -> None:
    """Readers see whole entries only, and nobody fails because another one removes files."""
    script = f"""
import hashlib, random, warnings, sys
from collections.abc import Callable, Iterator
from pathlib import Path
from xpr.lowering.cache import CompileCache
warnings.simplefilter("error")
cache = CompileCache(Path({str(tmp_path)!r}), max_bytes=60_000)
# A random order: going round in circles, each entry would be removed just before its next use.
order = random.Random(int(sys.argv[1]))
hits = 0
for _ in range(400):
    n = order.randrange(40)
    key = hashlib.sha256(bytes([n])).digest()
    got = cache.get(key)
    assert got is None or got == bytes([n]) * 3000, n
    hits += got is not None
    if got is None:
        cache.put(key, bytes([n]) * 3000)
print(hits)
"""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(i)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(4)
    ]
    for child in children:
        out, err = child.communicate(timeout=120)
        assert child.returncode == 0, err
        assert int(out) > 0
    assert not list(tmp_path.glob("*/*.tmp"))


def test_the_environment_switches_the_cache_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("0", "false", "off", "No"):
        monkeypatch.setenv("XPR_CACHE", value)
        assert default_cache() is None
    monkeypatch.setenv("XPR_CACHE", "1")
    assert default_cache() is not None


def test_the_environment_chooses_directory_and_size(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XPR_CACHE_DIR", str(tmp_path / "here"))
    monkeypatch.setenv("XPR_CACHE_MAX_BYTES", "12345")
    monkeypatch.delenv("XPR_CACHE", raising=False)
    cache = default_cache()
    assert cache is not None
    assert (cache.directory, cache.max_bytes) == (tmp_path / "here", 12345)
    assert default_cache() is cache
    monkeypatch.delenv("XPR_CACHE_MAX_BYTES")
    monkeypatch.setenv("XPR_CACHE_DIR", "~/there")
    cache = default_cache()
    assert cache is not None
    assert cache.directory == Path.home() / "there"
    assert cache.max_bytes == DEFAULT_MAX_BYTES == 2 * 1024**3


@pytest.fixture
def default_directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Path]]:
    monkeypatch.delenv("XPR_CACHE_DIR", raising=False)
    monkeypatch.delenv("XPR_CACHE", raising=False)

    def found() -> Path:
        cache_module._cache_for.cache_clear()
        cache = default_cache()
        assert cache is not None
        return cache.directory

    yield found
    cache_module._cache_for.cache_clear()


@pytest.mark.parametrize(
    ("home", "stated"),
    [
        ("/home/one", None),
        ("/home/one", ""),
        ("/home/one", "relative"),
        ("/home/one", "/scratch/one"),
        ("", "/scratch/one"),
        ("relative", None),
        (None, None),
    ],
)
def test_the_default_directory_is_the_users_cache(
    monkeypatch: pytest.MonkeyPatch,
    default_directory: Callable[[], Path],
    home: str | None,
    stated: str | None,
) -> None:
    """The one that platformdirs finds."""
    for name, value in (("HOME", home), ("XDG_CACHE_HOME", stated)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert default_directory() == platformdirs.user_cache_path("xpr", appauthor=False)


def test_platformdirs_is_asked_on_other_systems(
    monkeypatch: pytest.MonkeyPatch, default_directory: Callable[[], Path]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name, appauthor: f"/caches/{name}")
    assert default_directory() == Path("/caches/xpr")


def test_a_size_that_is_no_number_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XPR_CACHE", raising=False)
    monkeypatch.setenv("XPR_CACHE_MAX_BYTES", "2GB")
    with pytest.raises(
        ValueError, match="XPR_CACHE_MAX_BYTES requires a number of bytes, got '2GB'"
    ):
        default_cache()


def _run(script: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


@posix_only
def test_shared_directories_are_read_below_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lower = [CompileCache(tmp_path / name) for name in ("first", "second")]
    lower[1].put(KEY, PAYLOAD)
    lower[1].note(OTHER_KEY, {"fallback": "host"})
    monkeypatch.setenv("XPR_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("XPR_CACHE_PATH", os.pathsep.join(str(c.directory) for c in lower))
    cache = default_cache()
    assert cache is not None
    assert cache.get(KEY) == PAYLOAD
    assert cache.noted(OTHER_KEY) == {"fallback": "host"}
    assert not (tmp_path / "own").exists()
    cache.put(KEY, b"my own")
    assert cache.get(KEY) == b"my own"
    assert lower[1].get(KEY) == PAYLOAD
    cache.discard(KEY)
    # What others than the owner may change is not used, and nothing is removed there.
    for path in (lower[1].path(KEY), lower[1].path(KEY).parent, lower[1].directory):
        mode = path.stat().st_mode
        path.chmod(mode | 0o020)
        assert cache.get(KEY) is None
        path.chmod(mode)
    content = bytearray(lower[1].path(KEY).read_bytes())
    content[-1] ^= 1
    lower[1].path(KEY).write_bytes(content)
    assert cache.get(KEY) is None
    assert lower[1].path(KEY).exists()


@posix_only
def test_a_shared_directory_of_another_user_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lower = CompileCache(tmp_path / "lower")
    lower.put(KEY, PAYLOAD)
    cache = CompileCache(tmp_path / "own", shared=(lower.directory,))
    monkeypatch.setattr(os, "geteuid", lambda: 123456)
    assert lower.get(KEY) is None
    assert cache.get(KEY) == PAYLOAD


def test_a_cache_keeps_which_compiler_filled_it(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path / "own")
    assert cache.compiler() is None
    cache.put(KEY, PAYLOAD)
    cache.note_compiler("3.13.0")
    cache.note_compiler("3.14.0")
    assert cache.compiler() == "3.14.0"
    above = CompileCache(tmp_path / "above", shared=[cache.directory])
    assert above.compiler() == "3.14.0"
    assert cache.prune() is None
    assert cache.compiler() == "3.14.0"
    file = tmp_path / "cache.tar.gz"
    assert export_cache(cache, file) == 1
    cache.clear()
    assert cache.compiler() is None
    other = CompileCache(tmp_path / "other")
    assert import_cache(other, file) == (1, 0)
    assert other.compiler() == "3.14.0"
    other.note_compiler("3.15.0")
    assert import_cache(other, file) == (1, 0)
    assert other.compiler() == "3.15.0"


_PROGRAM = """
import sys
import numpy as np
import xpr
with xpr.default_device(sys.argv[1]):
    x = xpr.jit(lambda x: (x @ x).sum())(np.ones((5, 5), "f"))
    print(float(x), "iree.compiler" in sys.modules)
"""

# No package of the compiler is found, and no record of its installation.
_HIDDEN = """
import importlib.metadata as m, importlib.util as u
found, version = u.find_spec, m.version
u.find_spec = lambda n, p=None: None if n == "iree.compiler" else found(n, p)
def hidden(name):
    if name == "iree-base-compiler":
        raise m.PackageNotFoundError(name)
    return version(name)
m.version = hidden
"""


@pytest.mark.parametrize("runtime", ["cpu", "vmvx"])
def test_without_the_compiler_a_cache_is_found(tmp_path: Path, runtime: str) -> None:
    """By the program's own key, and, where that is of another Python or NumPy, by its text."""
    own, shared = tmp_path / "own", tmp_path / "shared"

    def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, runtime],
            env={**os.environ, "XPR_CACHE_DIR": str(own), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    missing = run(_HIDDEN + _PROGRAM)
    assert missing.returncode == 1
    assert "requires iree-base-compiler" in missing.stderr
    assert run(_PROGRAM).stdout.startswith("125.0")
    for _ in range(2):
        assert run(_HIDDEN + _PROGRAM).stdout == "125.0 False\n"
        # Programs of another Python are not known.
        for file in own.glob("*/*.program"):
            file.unlink()
    own.rename(shared)
    found = run(_HIDDEN + _PROGRAM, XPR_CACHE_PATH=str(shared))
    assert found.stdout == "125.0 False\n", found.stderr
