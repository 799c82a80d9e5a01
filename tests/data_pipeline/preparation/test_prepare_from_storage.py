"""Lists may name recordings in object storage."""

import json

import numpy as np
import pytest
import soundfile
from helpers.object_storage import object_storage

from asr.base.system.storage.refusals import StorageError
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.preparation.prepare import prepare_corpus


@pytest.fixture(scope="module")
def bucket():
    with object_storage() as bucket:
        yield bucket


def prepared(addresses, folder):
    """Return the corpus of a list of recordings."""
    rows = [{"audio": address, "text": "我们", "tokens": "wo3 men5"} for address in addresses]
    (folder / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return prepare_corpus("json_lines", str(folder / "list.jsonl"), folder / "out")


def test_recordings_of_a_list_stay_where_they_are(bucket, tmp_path):
    addresses = []
    for number in range(12):
        path = tmp_path / f"{number}.wav"
        soundfile.write(path, np.zeros(16000 + 160 * number), 16000)
        addresses.append(bucket.put(path, f"recordings/{number}.wav"))
    corpus = prepared(addresses, tmp_path)
    assert not corpus.left_out
    found = [one for manifest in corpus.manifests.values() for one in read_manifest(manifest)]
    assert {one.audio_path: round(one.duration_s * 16000) for one in found} == {
        address: 16000 + 160 * number for number, address in enumerate(addresses)
    }


def test_missing_bucket_ends_a_preparation(bucket, tmp_path):
    with pytest.raises(StorageError, match=r"there is no bucket no-such"):
        prepared(["s3://no-such/a.wav"], tmp_path)
    assert not (tmp_path / "out" / "train.jsonl").exists()
