import pytest

from asr.base.errors import UserError
from asr.base.text.encodings import file_text

TEXT = "一 你好　世界\n\n二 thanks\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_text_in_common_encodings_is_read(encoding, end, tmp_path):
    (tmp_path / "t").write_bytes(TEXT.replace("\n", end).encode(encoding))
    assert file_text(tmp_path / "t") == TEXT


@pytest.mark.parametrize("encoding", ["gbk", "big5"])
@pytest.mark.parametrize(
    "text",
    [
        "謝謝你，我們去公園",
        "籌備\n中風",
        "對不起",
        "瞭解下\n海倫·凱勒\n無論是截",
        "臺北的天氣很好。" * 20_000,
        "a b\n" * 20_000 + "謝謝你，我們去公園",
    ],
)
def test_traditional_characters_are_read_in_both_legacy_encodings(encoding, text, tmp_path):
    (tmp_path / "t").write_bytes(text.encode(encoding))
    assert file_text(tmp_path / "t") == text


@pytest.mark.parametrize(
    "text", ["单 shàn dān\n长 cháng", "卡尔·马克思\n—— ①", "shàn dān", "你好😀😀😀吃饭", "邓超\n闫妮\n郝蕾"]
)
def test_lists_of_readings_and_names_are_read_in_gbk(text, tmp_path):
    (tmp_path / "t").write_bytes(text.encode("gb18030"))
    assert file_text(tmp_path / "t") == text


def test_last_character_that_is_cut_is_an_error(tmp_path):
    (tmp_path / "t").write_bytes("我们去公园".encode("gbk")[:-1])
    with pytest.raises(UserError, match="t: neither UTF-8, UTF-16, GB 18030 nor Big5"):
        file_text(tmp_path / "t")


def test_utf8_with_a_damaged_byte_raises_with_its_line(tmp_path):
    data = (TEXT * 20).encode()
    place = data.index("世".encode())
    (tmp_path / "t").write_bytes(data[:place] + b"\xff" + data[place + 1 :])
    with pytest.raises(UserError, match=r"t:1: invalid UTF-8 byte"):
        file_text(tmp_path / "t")


def test_binary_or_missing_file_raises(tmp_path):
    (tmp_path / "t").write_bytes(bytes(range(128, 256)) * 3)
    with pytest.raises(UserError, match="neither UTF-8, UTF-16, GB 18030 nor Big5"):
        file_text(tmp_path / "t")
    with pytest.raises(UserError, match="cannot read this list"):
        file_text(tmp_path / "none", "list")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("ひらがなとカタカナ", "shift_jis"),
        ("élàn vitaç côté", "latin-1"),
        ("Vélez", "latin-1"),
        ("école\nécran", "latin-1"),
    ],
)
def test_text_in_another_encoding_is_not_decoded_as_chinese(text, encoding, tmp_path):
    (tmp_path / "t").write_bytes(text.encode(encoding))
    with pytest.raises(UserError, match="neither UTF-8, UTF-16, GB 18030 nor Big5"):
        file_text(tmp_path / "t")
