"""The persistent cache: many processes, damaged files, its bound."""

import hashlib
import os
import subprocess
import sys
import threading
import time
import warnings

import pytest

from quire.runtime.compile_cache import MAGIC, CompileCache, cache_key, compile_cache, parse_size

KEY = "ab" + "0" * 62


@pytest.fixture
def cache(tmp_path):
    return CompileCache(tmp_path / "cache", size=1 << 30, enabled=True)


def test_get_and_put(cache):
    assert cache.get(KEY) is None
    cache.put(KEY, b"payload")
    assert cache.get(KEY) == b"payload"
    assert [path.name for path in cache.path(KEY).parent.iterdir()] == [KEY[2:]]  # no temporary file is left
    cache.put(KEY, b"")
    assert cache.get(KEY) == b""
    cache.clear()
    assert cache.get(KEY) is None


def test_get_or_compute_computes_once(cache):
    calls = []
    for _ in range(2):
        assert cache.get_or_compute(KEY, lambda: calls.append(1) or b"x") == b"x"
    assert calls == [1]


def test_a_failing_computation_stores_nothing_and_frees_the_lock(cache):
    def fail():
        raise KeyError("no")

    with pytest.raises(KeyError):
        cache.get_or_compute(KEY, fail)
    assert cache.get_or_compute(KEY, lambda: b"y") == b"y"


def test_computations_may_nest(cache):
    other = "cd" + KEY[2:]
    assert cache.get_or_compute(KEY, lambda: cache.get_or_compute(other, lambda: b"in") + b"out") == b"inout"


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "magic"])
def test_a_damaged_file_is_removed_and_computed_again(cache, damage):
    cache.put(KEY, b"payload" * 100)
    path = cache.path(KEY)
    data = path.read_bytes()
    assert data[: len(MAGIC)] == MAGIC
    path.write_bytes(
        {
            "flip": data[:-5] + bytes([data[-5] ^ 1]) + data[-4:],
            "truncate": data[: len(data) // 2],
            "empty": b"",
            "magic": b"quire-cache-0\n" + data[len(MAGIC) :],
        }[damage]
    )
    assert cache.get(KEY) is None
    assert not path.exists()
    assert cache.get_or_compute(KEY, lambda: b"fresh") == b"fresh"
    assert cache.get(KEY) == b"fresh"


def test_a_file_exchanged_with_another_is_not_loaded(cache):
    other = "cd" + KEY[2:]
    cache.put(KEY, b"sine")
    cache.put(other, b"cosine")
    a, b = cache.path(KEY), cache.path(other)
    a_data, b_data = a.read_bytes(), b.read_bytes()
    a.write_bytes(b_data)
    b.write_bytes(a_data)
    assert cache.get(KEY) is None and cache.get(other) is None
    assert not a.exists() and not b.exists()
    assert cache.get_or_compute(KEY, lambda: b"sine") == b"sine"


def test_the_size_is_bounded_and_the_oldest_go(tmp_path):
    cache = CompileCache(tmp_path, size=100_000, enabled=True)
    keys = [hashlib.sha256(bytes([i])).hexdigest() for i in range(30)]
    for i, key in enumerate(keys):
        cache.put(key, bytes(10_000))
        os.utime(cache.path(key), (1e9 + i, 1e9 + i))
    assert cache.sweep() <= 100_000
    kept = [key for key in keys if cache.path(key).exists()]
    assert 5 <= len(kept) <= 9 and kept == keys[-len(kept) :]


def test_a_use_keeps_a_file(tmp_path):
    cache = CompileCache(tmp_path, size=25_000, enabled=True)
    a, b, c = (letter * 64 for letter in "abc")
    for i, key in enumerate((a, b)):
        cache.put(key, bytes(10_000))
        os.utime(cache.path(key), (1e9 + i, 1e9 + i))
    assert cache.get(a)  # b is now the one used longest ago
    cache.put(c, bytes(10_000))
    assert [cache.path(key).exists() for key in (a, b, c)] == [True, False, True]


def test_leftovers_of_dead_writers_go(cache):
    cache.put(KEY, b"x")
    leftover = cache.path(KEY).with_name(".x.1.2.tmp")
    leftover.write_bytes(b"half")
    cache.sweep()
    assert leftover.exists()  # it may be in the making
    os.utime(leftover, (time.time() - 7200,) * 2)
    cache.sweep()
    assert not leftover.exists() and cache.get(KEY) == b"x"


def test_off(tmp_path, monkeypatch):
    monkeypatch.setenv("QUIRE_CACHE", "0")
    cache = CompileCache(tmp_path / "c")
    cache.put(KEY, b"x")
    assert cache.get_or_compute(KEY, lambda: b"y") == b"y"
    assert cache.get(KEY) is None and not (tmp_path / "c").exists()


def test_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("QUIRE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("QUIRE_CACHE_SIZE", "3 MiB")
    monkeypatch.delenv("QUIRE_CACHE", raising=False)
    cache = CompileCache()
    assert cache.enabled and cache.size == 3 << 20 and cache.folder == tmp_path / "programs"
    assert compile_cache() is compile_cache()


def test_sizes():
    assert [parse_size(s) for s in ("17", "2GiB", "1.5 kB", "500MB")] == [17, 2 << 30, 1500, 500_000_000]
    with pytest.raises(ValueError, match="QUIRE_CACHE_SIZE=lots: expected a size such as 2GiB"):
        parse_size("lots")


def test_an_unwritable_folder_warns_once(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    cache = CompileCache(blocked / "below", enabled=True)
    with pytest.warns(RuntimeWarning, match="cannot be written.*QUIRE_CACHE_DIR"):
        assert cache.get_or_compute(KEY, lambda: b"x") == b"x"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.get_or_compute(KEY, lambda: b"x") == b"x"
        cache.put(KEY, b"x")


def test_bad_keys(cache):
    for key in ("../../etc/passwd", "", "a/b/c"):
        with pytest.raises(ValueError, match="is no cache key"):
            cache.get(key)


def test_keys_tell_parts_apart():
    keys = [
        cache_key(*parts)
        for parts in (("ab", "c"), ("a", "bc"), ("abc",), (b"ab", "c", ""), (("a", "b"), "c"), (("ab",), "c", ("x",)))
    ]
    assert len(set(keys)) == len(keys) and all(len(key) == 64 for key in keys)
    assert cache_key("m", ("f",)) == cache_key("m", ("f",))


def test_threads_compute_once(cache):
    calls, results = [], []

    def compute():
        calls.append(1)
        time.sleep(0.1)
        return b"z"

    threads = [threading.Thread(target=lambda: results.append(cache.get_or_compute(KEY, compute))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [1] and results == [b"z"] * 4


def test_two_processes_compile_once(tmp_path):
    script = """
import sys, time
from pathlib import Path
from quire.runtime.compile_cache import CompileCache
cache = CompileCache(sys.argv[1], enabled=True)
def compute():
    with open(sys.argv[2], "a") as f:
        f.write("x")
    time.sleep(0.5)
    return b"payload"
Path(sys.argv[3]).touch()
while not Path(sys.argv[4]).exists():
    time.sleep(0.01)
assert cache.get_or_compute("k" * 64, compute) == b"payload"
"""
    count, go = tmp_path / "count", tmp_path / "go"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path / "cache"), str(count), str(tmp_path / f"r{i}"), str(go)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(2)
    ]
    while not all((tmp_path / f"r{i}").exists() for i in range(2)):
        assert all(process.poll() is None for process in processes)
        time.sleep(0.01)
    go.touch()
    for process in processes:
        _, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors
    assert count.read_text() == "x"


def test_a_lock_of_a_killed_process_is_free(tmp_path):
    script = """
import os, sys
from quire.runtime.compile_cache import CompileCache
CompileCache(sys.argv[1], enabled=True).get_or_compute("k" * 64, lambda: os.kill(os.getpid(), 9))
"""
    result = subprocess.run([sys.executable, "-c", script, str(tmp_path)], timeout=100)
    assert result.returncode == -9
    assert CompileCache(tmp_path, enabled=True).get_or_compute("k" * 64, lambda: b"mine") == b"mine"
