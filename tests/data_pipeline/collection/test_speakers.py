"""Test names of speakers, and the keys of their links."""

import stat

import pytest

from asr.base.errors import UserError
from data_pipeline.collection.speakers import checked_name, keys_of, read_names


def test_keys_stay_the_same_and_only_their_owner_reads_them(tmp_path):
    first = keys_of(tmp_path, ["小明", "anna"])
    both = keys_of(tmp_path, ["anna", "bo"])
    assert both["anna"] == first["anna"]
    assert len({*first.values(), *both.values()}) == 3
    assert all(len(key) >= 20 for key in both.values())
    assert stat.S_IMODE((tmp_path / "speakers.tsv").stat().st_mode) == 0o600
    assert keys_of(tmp_path, ["小明"]) == {"小明": first["小明"]}
    with pytest.raises(UserError, match="received the speaker Anna, but has anna"):
        keys_of(tmp_path, ["Anna"])


@pytest.mark.parametrize("name", ["", "a/b", "..", ".a", "a\tb", "a\0", "x" * 41, "-rf", "a\\b", "a:b"])
def test_name_that_cannot_be_a_folder_is_refused(name):
    with pytest.raises(UserError, match="expected a name"):
        checked_name(name)


def test_names_are_read_from_the_first_column(tmp_path):
    path = tmp_path / "names.tsv"
    path.write_text("小明\tclass 3\n\nAnna B.2\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"names\.tsv"):
        read_names(tmp_path / "none" / "names.tsv")
    assert read_names(path) == ["小明", "Anna B.2"]
    path.write_text("anna\nAnna\n", encoding="utf-8")
    with pytest.raises(UserError, match="twice"):
        read_names(path)
    path.write_text("anna\n../x\n", encoding="utf-8")
    with pytest.raises(UserError, match=r":2: expected a name"):
        read_names(path)
    path.write_text("\n", encoding="utf-8")
    with pytest.raises(UserError, match="found none"):
        read_names(path)


def test_broken_line_of_the_keys_is_named(tmp_path):
    (tmp_path / "speakers.tsv").write_text("anna\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"speakers\.tsv:1"):
        keys_of(tmp_path, ["anna"])
