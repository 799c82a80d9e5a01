import pytest

from data_pipeline.corpora.layout import files_below, plain_spaces, raw_lines, text_lines

LINES = ["一 你好　世界", "二 thanks"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_transcripts_in_common_encodings_are_read(encoding, end, tmp_path):
    (tmp_path / "t").write_bytes(("　" + end.join([LINES[0], "", LINES[1] + "　"])).encode(encoding))
    assert list(text_lines(tmp_path / "t")) == [(1, LINES[0]), (3, LINES[1])]
    assert [number for number, _ in raw_lines(tmp_path / "t")] == [1, 3]


def test_files_below_is_sorted_and_ignores_the_case_of_suffixes(tmp_path):
    for name in ["b/2.WAV", "b/1.wav", "a.Wav", ".hidden.wav", ".git/x.wav", "c.txt"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "b" / "loop").symlink_to(tmp_path)
    found = [path.relative_to(tmp_path).as_posix() for path in files_below(tmp_path, (".wav",))]
    assert found == ["a.Wav", "b/1.wav", "b/2.WAV"]


def test_plain_spaces_joins_white_space_of_any_kind():
    assert plain_spaces("\ufeff　你好 \t　e\u0301\n") == "你好 é"
