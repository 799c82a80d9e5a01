"""What takes long to make is made once on a machine, and again where its file is missing or damaged."""

import numpy as np
import pytest

from asr.base.system.cache import cache_folder, cached_array

VALUES = np.arange(10, dtype=np.uint32)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))


def not_called():
    raise AssertionError("it is in the cache")


def test_array_is_made_once_and_then_mapped():
    cached_array("squares", len(VALUES), lambda: VALUES)
    again = cached_array("squares", len(VALUES), not_called)
    assert isinstance(again, np.memmap)
    assert not again.flags.writeable
    np.testing.assert_array_equal(again, VALUES)


@pytest.mark.parametrize("kept_bytes", [0, 100, 150])
def test_damaged_file_is_made_again(kept_bytes):
    cached_array("squares", len(VALUES), lambda: VALUES)
    (file,) = cache_folder().iterdir()
    file.write_bytes(file.read_bytes()[:kept_bytes])
    np.testing.assert_array_equal(cached_array("squares", len(VALUES), lambda: VALUES), VALUES)
    np.testing.assert_array_equal(cached_array("squares", len(VALUES), not_called), VALUES)


def test_array_of_another_size_is_made_again():
    cached_array("squares", 3, lambda: VALUES[:3])
    np.testing.assert_array_equal(cached_array("squares", len(VALUES), lambda: VALUES), VALUES)


def test_array_is_made_where_the_cache_cannot_be_written(tmp_path):
    (tmp_path / "cache").write_text("a file", encoding="utf-8")
    np.testing.assert_array_equal(cached_array("squares", len(VALUES), lambda: VALUES), VALUES)


def test_failed_writing_leaves_no_file(monkeypatch):
    def full_disk(file, array):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full_disk)
    np.testing.assert_array_equal(cached_array("squares", len(VALUES), lambda: VALUES), VALUES)
    assert list(cache_folder().iterdir()) == []
