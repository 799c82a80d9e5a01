import pytest

from asr.base.errors import UserError
from data_pipeline.labels.from_text import ReadingPolicy, label
from data_pipeline.labels.readings.user_table import UserTable


def read(text, table, path, tones="citation"):
    """Return the syllables of a text as one string, by a table."""
    path.write_text(table, encoding="utf-8")
    return " ".join(label(text, "syllables", ReadingPolicy(tones, UserTable.load(path))))


@pytest.mark.parametrize(
    ("table", "text", "syllables"),
    [
        ("单田芳\tshan4 tian2 fang1\n", "单田芳先生", "shan4 tian2 fang1 xian1 sheng1"),
        ("# names\n\n朝阳 zhāo yáng  # not the district\n", "朝阳", "zhao1 yang2"),
        ("绿 lù", "绿林", "lu4 lin2"),
        ("銀行 yin2 xing2", "銀行和银行", "yin2 xing2 he2 yin2 xing2"),
        ("看著 kan4 zhao2", "他看著門，看著你", "ta1 kan4 zhao2 men2 kan4 zhao2 ni3"),
        ("看著 kan4 zhao2", "看着門", "kan4 zhe5 men2"),
        ("看着 kan4 zhao2", "看著門", "kan4 zhao2 men2"),
        ("於 wu1", "於門于", "wu1 men2 yu2"),
        ("於 wu1\n于门 yu2 men5", "於門", "yu2 men5"),
        ("行 xing2\n行长 hang2 zhang3", "行长行", "hang2 zhang3 xing2"),
        ("得 dei3", "得到", "dei3 dao4"),
        ("行长 xing2 chang2", "银行，长大", "yin2 hang2 zhang3 da4"),
        ("行长 xing2 chang2", "银行 长大", "yin2 xing2 chang2 da4"),
        ("行长 xing2 chang2", "长大，行长", "zhang3 da4 xing2 chang2"),
        ("女儿 nü3 er5", "女儿", "nv3 er5"),
    ],
)
def test_table_wins_over_dictionary_rules_and_context(table, text, syllables, tmp_path):
    assert read(text, table, tmp_path / "own.txt") == syllables


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "gb18030"])
def test_table_is_read_in_any_common_encoding(encoding, tmp_path):
    (tmp_path / "own.txt").write_bytes("# 人名\r\n单田芳\tshàn tián fāng\r\n".encode(encoding))
    assert UserTable.load(tmp_path / "own.txt").readings == {"单田芳": ("shan4", "tian2", "fang1")}


def test_table_wins_over_spoken_tones(tmp_path):
    assert read("你好你好", "你好 ni3 hao3", tmp_path / "own.txt", "spoken") == "ni3 hao3 ni3 hao3"


@pytest.mark.parametrize(
    ("table", "line", "reason"),
    [
        ("银行 yin2 hang2\n行长 hang2\n", 2, "2 hanzi, 1 syllable"),
        ("ba1nk yin2\n", 1, "'ba1nk' is neither hanzi nor Latin letters"),
        ("银行 yin hang\n", 1, "'yin' is not a toned syllable"),
        ("\n\n银行 yin2 hong9\n", 3, "not a toned syllable"),
        ("银行\n", 1, "2 hanzi, 0 syllables"),
        ("银行 yin2 hang2\n\n银行 yin2 xing2\n", 3, "yin2 hang2 in line 1"),
    ],
)
def test_broken_line_raises_with_its_number(table, line, reason, tmp_path):
    with pytest.raises(UserError, match=rf"own\.txt, line {line}: .*{reason}"):
        read("你好", table, tmp_path / "own.txt")


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"\xff\xfe", None], ids=ascii)
def test_unusable_table_raises_with_its_path(content, tmp_path):
    path = tmp_path / "own.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=r"own\.txt: (no readings|not UTF-8|cannot read)"):
        UserTable.load(path)
