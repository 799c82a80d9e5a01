"""KenLM's binaries are read and written as KenLM does; `test_arpa.py` describes the files."""

import json
import math
import mmap
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from asr.base.errors import UserError
from asr.language.ngram.kenlm_binary.kenlm_header import FIXED, SANITY
from asr.language.ngram.model_file import load_model, save_model

FILES = Path(__file__).parent / "kenlm_files"
KENLM = json.loads((FILES / "scores.json").read_text(encoding="utf-8"))
BINARIES = sorted(name for name in KENLM["log10_probs"] if name.endswith(".klm"))


def changed(tmp_path, name, place, value):
    data = bytearray((FILES / name).read_bytes())
    data[place : place + len(value)] = value
    path = tmp_path / "changed.klm"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", BINARIES)
def test_sentences_in_binary_models_have_the_probabilities_of_kenlm(name):
    model = load_model(FILES / name)
    for sentence, theirs in zip(KENLM["sentences"], KENLM["log10_probs"][name], strict=True):
        ours = [log_prob / math.log(10) for log_prob in model.log_probs(sentence.split())]
        assert ours == pytest.approx(theirs, abs=2e-6)


def test_a_written_model_equals_kenlms_byte_for_byte(tmp_path):
    save_model(tmp_path / "ours.klm", load_model(FILES / "whole.arpa"))
    assert (tmp_path / "ours.klm").read_bytes() == (FILES / "probing.klm").read_bytes()


@pytest.mark.parametrize("name", ["probing.klm", "wide_probing.klm", "no_unk.klm", "pruned.klm"])
def test_a_mapped_model_is_written_unchanged(name, tmp_path):
    save_model(tmp_path / "ours.klm", load_model(FILES / name))
    assert (tmp_path / "ours.klm").read_bytes() == (FILES / name).read_bytes()


def test_a_probing_file_is_mapped_and_not_copied():
    owner = load_model(FILES / "probing.klm").tables.memory
    while isinstance(owner, np.ndarray):
        owner = owner.base
    assert isinstance(owner, mmap.mmap)


@pytest.mark.parametrize("name", ["probing.klm", "trie.klm", "quantised_array.klm"])
def test_a_truncated_kenlm_file_is_refused(name, tmp_path):
    whole = (FILES / name).read_bytes()
    path = tmp_path / "cut.klm"
    for length in range(33, len(whole), 5):
        path.write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"cut\.klm: expected .*, received .*; "):
            load_model(path)


def test_searching_a_damaged_probing_file_without_empty_buckets_ends(tmp_path):
    tables = load_model(FILES / "probing.klm").tables
    data = (FILES / "probing.klm").read_bytes()
    begin = data.index(tables.memory.tobytes())
    num_unigram_bytes = 4 * int(tables.begins[0])
    end = begin + tables.memory.nbytes
    path = tmp_path / "full.klm"
    path.write_bytes(
        data[: begin + num_unigram_bytes] + b"\x7f" * (end - begin - num_unigram_bytes) + data[end:]
    )
    program = "import sys; from pathlib import Path; from asr.language.ngram.model_file import load_model; "
    program += "model = load_model(Path(sys.argv[1])); print(len(model.log_probs(model.words[3:])))"
    command = [sys.executable, "-c", program, path]
    # in a process of its own: an endless loop in compiled code could not be stopped
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert int(done.stdout) == len(load_model(path).words) - 2


@pytest.mark.parametrize("name", ["trie.klm", "quantised.klm", "array.klm", "quantised_array.klm"])
def test_a_damaged_trie_is_refused_or_read_without_crashing(name, tmp_path):
    draw = np.random.default_rng(4)
    size = (FILES / name).stat().st_size
    refused = 0
    for _ in range(150):
        place = int(draw.integers(len(SANITY), size - 8))
        try:
            load_model(changed(tmp_path, name, place, draw.bytes(2)))
        except UserError:
            refused += 1
    assert refused > 20


REFUSED = {
    "rest costs": (len(SANITY) + 8, struct.pack("<I", 1), "rest probing.*build_binary probing"),
    "an unknown kind": (len(SANITY) + 8, struct.pack("<I", 9), "kind 9"),
    "no words in it": (len(SANITY) + 12, b"\0", "expected the words at the end of the file, received none"),
    "another version of the kind": (len(SANITY) + 16, b"\1", "received probing, version 1"),
    "order 7": (len(SANITY), b"\7", "expected an order from 2 to 6, received 7"),
    "order 1": (len(SANITY), b"\1", "expected an order from 2 to 6, received 1"),
    "no room": (len(SANITY) + 4, struct.pack("<f", math.nan), "received nan times their entries"),
    "beyond the file": (len(SANITY) + FIXED.size, struct.pack("<Q", 1 << 60), "it is truncated"),
    "an older format": (49, b"4", "format version 5.*received 'format version 4'"),
    "another byte order": (60, struct.pack(">f", 1), "little-endian"),
    "an unfinished one": (33, b" incomplete\n", "built to its end, received 'incomplete'"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_an_unsupported_kenlm_file_is_refused_with_the_remedy(kind, tmp_path):
    place, value, message = REFUSED[kind]
    with pytest.raises(UserError, match=message):
        load_model(changed(tmp_path, "probing.klm", place, value))


def test_a_kenlm_file_in_another_encoding_is_refused(tmp_path):
    data = (FILES / "probing.klm").read_bytes()
    place = data.index("词".encode(), len(data) - 200)
    with pytest.raises(UserError, match="expected words in UTF-8"):
        load_model(changed(tmp_path, "probing.klm", place, b"\xff\xfe"))


def test_a_missing_language_model_and_a_folder_are_reported(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        load_model(tmp_path / "none.klm")
    with pytest.raises(UserError, match="received a folder"):
        load_model(tmp_path)
