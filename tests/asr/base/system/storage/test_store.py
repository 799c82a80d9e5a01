import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.object_storage import object_storage

from asr.base.errors import UserError
from asr.base.system.storage import store
from asr.base.system.storage.refusals import StorageError
from asr.base.system.storage.store import (
    BLOCK_BYTES,
    MAX_BLOCKS,
    WHOLE_BYTES,
    files_below,
    find,
    names_in,
    open_stored,
    read_range,
    state_of_opened,
)

BIG = os.urandom(BLOCK_BYTES) * (WHOLE_BYTES // BLOCK_BYTES + 2)


@pytest.fixture(scope="module")
def bucket():
    with object_storage() as bucket:
        bucket.put(b"hello", "x/small")
        bucket.put(b"", "x/empty")
        bucket.put(BIG, "x/y/big")
        yield bucket


def test_a_small_file_is_read_at_once(bucket):
    assert open_stored(f"{bucket.address}/x/small").read() == b"hello"
    assert open_stored(f"{bucket.address}/x/empty").read() == b""


def test_of_a_large_file_a_few_blocks_are_in_memory(bucket):
    with open_stored(f"{bucket.address}/x/y/big") as file:
        assert file.read() == BIG
        file.seek(-5, os.SEEK_END)
        assert file.read() == BIG[-5:]
        file.seek(BLOCK_BYTES - 3)
        assert file.read(7) == BIG[BLOCK_BYTES - 3 : BLOCK_BYTES + 4]
        cache = file.raw._file.cache
        assert cache._fetch_block_cached.cache_info().currsize <= MAX_BLOCKS


def test_threads_read_parts_of_one_file(bucket):
    address = f"{bucket.address}/x/y/big"
    begins = range(0, len(BIG), 1_000_003)
    with ThreadPoolExecutor(16) as pool:
        parts = list(pool.map(lambda begin: read_range(address, begin, 1000), begins[:-1]))
    assert parts == [BIG[begin : begin + 1000] for begin in begins[:-1]]
    assert state_of_opened(address).num_bytes == len(BIG)


def test_files_and_names_are_listed_in_order(bucket):
    assert list(files_below(f"{bucket.address}/x")) == ["empty", "small", "y/big"]
    assert files_below(f"{bucket.address}/x")["small"].num_bytes == 5
    assert names_in(f"{bucket.address}/x") == ["empty", "small", "y"]
    assert names_in(f"{bucket.address}/none") == []


def test_another_version_is_another_one_and_what_is_listed_is_what_is_there(bucket):
    address = bucket.put(b"one", "versions/a")
    before = find(address)
    bucket.put(b"two", "versions/a")
    assert find(address) != before
    bucket.put(b"new", "versions/b")
    assert names_in(f"{bucket.address}/versions") == ["a", "b"]


def test_empty_objects_that_mark_folders_are_no_files(bucket):
    for name in ("marked/", "marked/y/"):
        bucket.put_marker(name)
    assert (files_below(f"{bucket.address}/marked"), names_in(f"{bucket.address}/marked")) == ({}, ["y"])
    bucket.put(b"one", "marked/y/a")
    assert list(files_below(f"{bucket.address}/marked")) == ["y/a"]
    assert names_in(f"{bucket.address}/marked/y") == ["a"]


def test_a_file_that_changes_while_parts_of_it_are_read_is_refused_from_then_on(bucket):
    address = bucket.put(b"0123456789", "changes")
    assert read_range(address, 2, 3) == b"234"
    bucket.put(b"abcdefghij", "changes")
    for _ in range(2):
        with pytest.raises(StorageError, match=f"{address}: has changed .*; copy or pack it again, then res"):
            read_range(address, 2, 3)
    with pytest.raises(StorageError, match=f"{address}: has changed"):
        state_of_opened(address)
    bucket.put(b"0123456789", "changes")
    assert read_range(address, 2, 3) == b"234"


def test_a_file_that_changes_after_parts_of_many_others_were_read_is_refused(bucket, monkeypatch):
    monkeypatch.setattr(store, "MAX_OPEN", 1)
    address, other = bucket.put(b"0123456789", "many/a"), bucket.put(b"0123456789", "many/b")
    assert [read_range(one, 2, 3) for one in (address, other, address, other)] == [b"234"] * 4
    bucket.put(b"abcdefghij", "many/a")
    with pytest.raises(StorageError, match=f"{address}: has changed"):
        read_range(address, 2, 3)


def test_a_file_that_vanishes_while_parts_of_it_are_read_is_refused(bucket):
    address = bucket.put(b"0123456789", "vanishes")
    read_range(address, 2, 3)
    bucket.remove("vanishes")
    with pytest.raises(UserError, match=f"{address}: nothing is there; .* if it was removed"):
        read_range(address, 2, 3)


def test_a_large_file_that_changes_while_it_is_read_is_refused(bucket):
    address = bucket.put(BIG, "large")
    with open_stored(address) as file:
        file.read(10)
        bucket.put(BIG[::-1], "large")
        file.seek(len(BIG) - BLOCK_BYTES)
        with pytest.raises(UserError, match=f"{address}: has changed"):
            file.read()


def test_a_file_that_is_half_there_is_refused(bucket):
    address = bucket.put(b"0123", "half")
    with pytest.raises(UserError, match=f"{address}: ends before byte 10; copy or pack it again"):
        read_range(address, 0, 10)


def test_fsspec_is_imported_for_addresses_only(tmp_path):
    code = (
        "import sys; from pathlib import Path\n"
        "from asr.audio.recording import read_audio, write_wav\n"
        "from data_pipeline.manifests.manifest import read_manifest, write_manifest\n"
        "from asr.base.types import Utterance; import numpy as np\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "write_wav(folder / 'a.wav', np.zeros(16000, np.int16))\n"
        "write_manifest(folder / 'm.jsonl', [Utterance('a', str(folder / 'a.wav'), 1.0, '', ('x',), '')])\n"
        "assert len(read_audio(read_manifest(folder / 'm.jsonl')[0].audio_path)) == 16000\n"
        "assert not {'fsspec', 's3fs', 'aiohttp', 'botocore'} & set(sys.modules), sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
