"""Read the TextGrids that praatio and this project write."""

import pytest
from praatio import textgrid as praat

from asr.base.text.subtitles import Interval
from asr.base.text.textgrid import Tier, read_textgrid, write_textgrid

LINES = [Interval(0.5, 1.25, '他说"你好"'), Interval(1.5, 2.0, "item [1]: 3 再见！")]


def test_textgrid_reads_back_as_it_was_written():
    text = write_textgrid({"lines": LINES, "empty": []}, 2.5)
    assert read_textgrid(text) == [Tier("lines", LINES), Tier("empty", [])]


@pytest.mark.parametrize("kind", ["short_textgrid", "long_textgrid"])
def test_both_text_formats_of_praat_are_read_without_points(kind, tmp_path):
    grid = praat.Textgrid()
    grid.addTier(praat.PointTier("点", [(0.25, "铃"), (1.0, "3")], 0, 2.5))
    entries = [(line.start_s, line.end_s, line.label) for line in LINES]
    grid.addTier(praat.IntervalTier("句子", entries, 0, 2.5))
    path = tmp_path / "a.TextGrid"
    grid.save(str(path), format=kind, includeBlankSpaces=True)
    assert read_textgrid(path.read_text("utf-8")) == [Tier("句子", LINES)]


def test_text_that_is_cut_off_or_no_textgrid_raises():
    text = write_textgrid({"lines": LINES}, 2.5)
    for end in (0, 20, 60, 200, len(text) - 20):
        with pytest.raises(ValueError, match=r"expected a TextGrid|cut off"):
            read_textgrid(text[:end])
    with pytest.raises(ValueError, match="PitchTier"):
        read_textgrid('File type = "ooTextFile"\nObject class = "PitchTier"\n')
    with pytest.raises(ValueError, match="damaged"):
        read_textgrid(text.replace('"IntervalTier"', "").replace("size = 1", "size = 2"))
