import re

from helpers.noise_table import noise_table

from asr.cli.main import main
from data_pipeline.labels.from_text import ReadingPolicy
from data_pipeline.labels.readings.user_table import UserTable
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.preparation.latin_words import LATIN_WORDS, listed_words

TEXTS = ("打开iPhone", "看CCTV5", "IT公司", "IT行业", "let it be很好听", "去KFC吃饭", "T恤很好看")


def prepare(tmp_path, out, *options):
    table = tmp_path / "source" / "list.csv"
    if not table.exists():
        noise_table(table.parent, {"train": TEXTS})
    return main(["prepare", "table", str(table), str(out), "--units", "mixed", *options])


def test_latin_words_are_listed_with_their_reading_number_and_a_text(tmp_path, capsys):
    out = tmp_path / "out"
    assert prepare(tmp_path, out) == 0
    printed = capsys.readouterr().out
    assert re.search(r"Latin words: 7, 3 of them spelt\n  to review: \S+/latin_words.txt", printed)
    lines = (out / LATIN_WORDS).read_text(encoding="utf-8").splitlines()
    assert lines[4:] == [
        "# it\tI T\t# 2: IT公司",
        "be\tbe\t# 1: let it be很好听",
        "cctv\tC C T V\t# 1: 看CCTV五",
        "iphone\tiphone\t# 1: 打开iPhone",
        "# it\tit\t# 1: let it be很好听",
        "kfc\tK F C\t# 1: 去KFC吃饭",
        "let\tlet\t# 1: let it be很好听",
    ]


def test_corrected_list_is_a_table_of_readings(tmp_path):
    assert prepare(tmp_path, tmp_path / "out") == 0
    written = (tmp_path / "out" / LATIN_WORDS).read_text(encoding="utf-8")
    table = tmp_path / "readings.txt"
    table.write_text(written.replace("kfc\tK F C", "kfc\tken3 de2 ji1"), encoding="utf-8")
    assert prepare(tmp_path, tmp_path / "again", "--readings", str(table)) == 0
    before, after = (
        {row.text: row.tokens for row in read_manifest(tmp_path / name / "train.jsonl")}
        for name in ("out", "again")
    )
    assert after["去KFC吃饭"] == ("qu4", "ken3", "de2", "ji1", "chi1", "fan4")
    assert after["IT公司"] == before["IT公司"]
    assert after["看CCTV五"] == before["看CCTV五"]


def test_list_as_it_is_changes_no_label(tmp_path):
    assert prepare(tmp_path, tmp_path / "out") == 0
    table = (tmp_path / "out" / LATIN_WORDS).rename(tmp_path / "readings.txt")
    assert prepare(tmp_path, tmp_path / "again", "--readings", str(table)) == 0
    before, after = (
        [row.tokens for row in read_manifest(tmp_path / name / "train.jsonl")] for name in ("out", "again")
    )
    assert before == after


def test_list_goes_with_labels_that_are_not_mixed(tmp_path):
    out = tmp_path / "out"
    assert prepare(tmp_path, out) == 0
    assert (out / LATIN_WORDS).exists()
    assert prepare(tmp_path, out, "--units", "characters") == 0
    assert not (out / LATIN_WORDS).exists()


def test_words_of_the_users_table_are_listed_as_it_has_them(tmp_path):
    path = tmp_path / "readings.txt"
    path.write_text("kfc ken3 de2 ji1\n", encoding="utf-8")
    (word,) = listed_words(["去KFC吃饭"], ReadingPolicy("citation", UserTable.load(path)))
    assert (word.word, word.reading, word.is_spelt) == ("kfc", ("ken3", "de2", "ji1"), False)
