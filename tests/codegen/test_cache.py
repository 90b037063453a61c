"""The disk cache under damage, concurrency, a full disk and a small limit."""

import errno
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from lamella.codegen.cache import Cache, cache_key, cached_objects, compiler_version, default_cache, parse_size
from lamella.codegen.errors import CodegenError
from lamella.lowering.target import CpuTarget

KEY = cache_key("a", b"b")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", 1 << 20)


def entries(cache: Cache) -> list[Path]:
    return [p for p in cache.directory.rglob("*") if p.is_file()]


def test_get_what_was_put(cache: Cache):
    """Bytes come back as they were, kinds apart, counted in `stats`."""
    assert cache.get("obj", KEY) is None
    cache.put("obj", KEY, b"\0data")
    cache.put("plan", KEY, b"")
    assert cache.get("obj", KEY) == b"\0data" and cache.get("plan", KEY) == b""
    stats = cache.stats()
    assert stats.entries == {"obj": 1, "plan": 1} and (stats.hits, stats.misses) == (2, 1)
    assert cache.clear() == 2 and cache.stats().entries == {}


def test_key_depends_on_the_parts():
    """Where one part ends and the next begins is part of the key; a version is stable."""
    assert cache_key("ab", "c") != cache_key("a", "bc") != cache_key("abc")
    assert compiler_version() == compiler_version()


@pytest.mark.parametrize("damage", [b"", b"x", b"lamella1" + b"\0" * 40])
def test_damaged_entry_is_a_miss_and_goes(cache: Cache, damage: bytes):
    """A file cut short, foreign or with a wrong checksum is not used and not kept."""
    cache.put("obj", KEY, b"data")
    (path,) = entries(cache)
    path.write_bytes(damage)
    assert cache.get("obj", KEY) is None and not path.exists()


def test_every_single_flipped_bit_is_found(cache: Cache):
    """No one-bit error of a whole file gets through."""
    cache.put("obj", KEY, b"data")
    (path,) = entries(cache)
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        path.write_bytes(bytes(b ^ (1 << bit % 8) if i == bit // 8 else b for i, b in enumerate(whole)))
        assert cache.get("obj", KEY) is None


def test_verify_removes_only_the_damaged(cache: Cache):
    """`verify` names what it removes and leaves the order of use alone."""
    for i in range(4):
        cache.put("obj", cache_key(str(i)), b"data")
    bad = entries(cache)[2]
    bad.write_bytes(b"lamella1")
    used = {p: p.stat().st_mtime for p in entries(cache)}
    assert cache.verify() == [bad]
    assert {p: p.stat().st_mtime for p in entries(cache)} == {p: t for p, t in used.items() if p != bad}


def test_limit_drops_the_longest_unused(tmp_path: Path):
    """Beyond the limit the entries used longest ago go; one that was read stays."""
    cache = Cache(tmp_path, 10_000)
    for i in range(9):
        cache.put("obj", cache_key(str(i)), bytes(900))
        path = cache._path("obj", cache_key(str(i)))
        os.utime(path, (1000 + i, 1000 + i))
    assert cache.get("obj", cache_key("0")) is not None
    cache.put("obj", cache_key("new"), bytes(900))
    cache.evict()
    assert sum(p.stat().st_size for p in entries(cache)) <= 9000
    assert cache.get("obj", cache_key("0")) is not None and cache.get("obj", cache_key("new")) is not None
    assert cache.get("obj", cache_key("1")) is None


def test_size_is_bounded_without_asking(tmp_path: Path):
    """Entries of a sixteenth of the limit and more keep it by themselves; one too large is not kept. The program's
    random numbers are left alone.
    """
    cache, state = Cache(tmp_path, 10_000), random.getstate()
    for i in range(50):
        cache.put("obj", cache_key(str(i)), bytes(1000))
    assert random.getstate() == state
    assert sum(p.stat().st_size for p in entries(cache)) <= 10_000
    cache.put("obj", KEY, bytes(20_000))
    assert cache.get("obj", KEY) is None


def test_zero_limit_keeps_nothing(tmp_path: Path):
    """A size of 0 turns the cache off."""
    cache = Cache(tmp_path / "cache", 0)
    cache.put("obj", KEY, b"data")
    assert cache.get("obj", KEY) is None and not cache.directory.exists()


def test_full_disk_goes_on_with_one_warning(cache: Cache, monkeypatch: pytest.MonkeyPatch):
    """ENOSPC half way through a write: no error, no entry, no temporary file, one warning."""

    def fill(path: Path, data: bytes) -> int:
        with open(path, "wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fill)
    with pytest.warns(RuntimeWarning, match="No space left") as caught:
        cache.put("obj", KEY, b"data")
        cache.put("obj", KEY, b"data")
    assert len(ours(caught)) == 1 and entries(cache) == [] and cache.get("obj", KEY) is None


def ours(caught: pytest.WarningsRecorder) -> list[str]:
    """What the cache said. (What is loaded meanwhile may have warnings of its own, as what others left may.)"""
    return [str(w.message) for w in caught if "without its disk cache" in str(w.message)]


def test_unwritable_directory_goes_on_with_one_warning(tmp_path: Path):
    """A directory that cannot be made (a file is in the way): compiled all the same."""
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "cache", 1 << 20)
    with pytest.warns(RuntimeWarning, match="without its disk cache") as caught:
        objects = cached_objects(["define void @f() { ret void }"], CpuTarget.host(), cache)
        cache.put("obj", KEY, b"data")
    assert len(ours(caught)) == 1 and objects[0].startswith(b"\x7fELF")


def hammer(directory: Path, seed: int) -> None:
    cache = Cache(directory, 50_000)
    warnings.simplefilter("error")
    for i in range(300):
        key = cache_key(str((i * 7 + seed) % 20))
        data = cache.get("obj", key)
        assert data is None or data == key.encode() * 20
        cache.put("obj", key, key.encode() * 20)


def test_concurrent_processes(tmp_path: Path):
    """Four processes that write, read and evict the same entries never see a wrong one, nor an error."""
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=hammer, args=(tmp_path, seed)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert not [p for p in tmp_path.rglob(".tmp-*")]


def test_killed_writer_leaves_nothing_wrong(tmp_path: Path):
    """After kill -9 in the middle of writing every entry is whole, and what was abandoned goes in time."""
    code = (
        "import sys; from pathlib import Path; from lamella.codegen.cache import Cache, cache_key\n"
        "cache = Cache(Path(sys.argv[1]), 1 << 30)\n"
        "while True:\n for i in range(50): cache.put('obj', cache_key(str(i)), bytes(1 << 20)); print(i, flush=True)"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert writer.stdout is not None and writer.stdout.readline() == b"0\n"
    time.sleep(0.2)  # it dies somewhere; one entry is there however slow the machine is
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    cache = Cache(tmp_path, 1 << 30)
    assert cache.verify() == [] and cache.stats().entries["obj"] > 0
    left = tmp_path / "obj" / "ab" / ".tmp-1"
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"")
    os.utime(left, (0, 0))
    cache.evict()
    assert not left.exists()


def test_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Directory and size come from the environment; nonsense is said to be so."""
    monkeypatch.setenv("LAMELLA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("LAMELLA_CACHE_SIZE", "3K")
    assert (default_cache().directory, default_cache().limit) == (tmp_path, 3072)
    assert default_cache() is default_cache()
    assert parse_size("2G") == 2 << 30 and parse_size("512 MiB") == 512 << 20
    assert parse_size("1.5k") == 1536 and parse_size("0") == 0
    for wrong in ("lots", "-1", "1.G", "3Q", "1e9", "٣"):
        with pytest.raises(CodegenError, match=f"LAMELLA_CACHE_SIZE is '{wrong}', which is no size: set it to "):
            parse_size(wrong)


def test_a_folder_is_the_same_wherever_the_process_goes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A relative directory is that of the moment when the cache was first asked for."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAMELLA_CACHE_DIR", f"cache-{tmp_path.name}")
    assert default_cache().directory == tmp_path / f"cache-{tmp_path.name}"
    monkeypatch.chdir("/")
    assert default_cache().directory == tmp_path / f"cache-{tmp_path.name}"


def test_cleared_in_the_middle_of_a_write(cache: Cache, monkeypatch: pytest.MonkeyPatch):
    """Another process that empties the cache, or removes its folder, is no reason to warn."""
    write = Path.write_bytes

    def late(path: Path, data: bytes) -> int:
        size = write(path, data)
        Cache(cache.directory, cache.limit).clear()
        return size

    monkeypatch.setattr(Path, "write_bytes", late)
    warnings.simplefilter("error")
    cache.put("obj", KEY, b"data")
    assert entries(cache) == [] and cache.get("obj", KEY) is None


def test_a_file_in_the_way_is_no_empty_cache(tmp_path: Path):
    """Who asks about the cache is told; a directory that is not there yet is empty."""
    (tmp_path / "file").write_text("")
    for ask in (Cache.stats, Cache.verify, Cache.clear):
        with pytest.raises(NotADirectoryError):
            ask(Cache(tmp_path / "file", 1 << 20))
    assert Cache(tmp_path / "missing", 1 << 20).clear() == 0


def test_what_cannot_be_removed_is_told(cache: Cache, monkeypatch: pytest.MonkeyPatch):
    """`clear` removes what it can; `verify` does not say that a damaged entry is gone which is not."""
    for i in range(3):
        cache.put("obj", cache_key(str(i)), b"data")
    stuck = entries(cache)[1]
    stuck.write_bytes(b"damaged")
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path == stuck:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(PermissionError):
        cache.verify()
    with pytest.raises(PermissionError):
        cache.clear()
    assert entries(cache) == [stuck]


def test_objects_are_compiled_once(cache: Cache):
    """Equal texts are one entry, a second process takes it from disk, another target does not."""
    text = "define i32 @f() { ret i32 1 }"
    first = cached_objects([text, text], CpuTarget.host(), cache)
    assert first[0] == first[1] and cache.stats().entries == {"obj": 1}
    again = Cache(cache.directory, cache.limit)
    assert cached_objects([text], CpuTarget.host(), again) == first[:1] and again.stats().hits == 1
    cached_objects([text], CpuTarget.from_name("baseline"), again)
    assert again.stats().entries == {"obj": 2}
