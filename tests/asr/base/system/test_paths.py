import itertools
import unicodedata

import pytest

from asr.base.system.paths import path_on_disk

COMPOSED, DECOMPOSED = (unicodedata.normalize(form, "nǐ hǎo") for form in ("NFC", "NFD"))
MIXED = f"{COMPOSED[:2]}{unicodedata.normalize('NFD', COMPOSED[2:])}"
FORMS = (COMPOSED, DECOMPOSED, MIXED)


@pytest.mark.parametrize(("folder", "file"), list(itertools.product(FORMS, FORMS)))
def test_path_in_any_unicode_forms_is_found(tmp_path, folder, file):
    on_disk = tmp_path / folder / "plain" / f"{file}.wav"
    on_disk.parent.mkdir(parents=True)
    on_disk.write_bytes(b"")
    for other_folder, other_file in itertools.product(FORMS, FORMS):
        path = tmp_path / other_folder / "plain" / f"{other_file}.wav"
        assert path_on_disk(str(path)) == str(on_disk)


def test_files_that_differ_in_form_alone_are_two(tmp_path):
    for name in (COMPOSED, DECOMPOSED):
        (tmp_path / name).write_text(name)
    for name in (COMPOSED, DECOMPOSED):
        assert path_on_disk(str(tmp_path / name)) == str(tmp_path / name)


def test_file_that_appears_later_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert path_on_disk(COMPOSED) == COMPOSED
    (tmp_path / DECOMPOSED).write_bytes(b"")
    assert path_on_disk(COMPOSED) == DECOMPOSED


def test_new_file_is_put_into_the_folder_that_exists(tmp_path):
    (tmp_path / DECOMPOSED).mkdir()
    assert path_on_disk(str(tmp_path / COMPOSED / COMPOSED)) == str(tmp_path / DECOMPOSED / COMPOSED)
