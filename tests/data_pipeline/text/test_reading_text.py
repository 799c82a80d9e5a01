import pytest

from data_pipeline.text.reading_text import readable_parts, reading_time_s


def test_reading_takes_about_three_hanzi_a_second():
    assert reading_time_s("今天的天气特别好我们去公园玩吧") == pytest.approx(5, abs=0.5)
    assert reading_time_s("The weather is lovely today, so let us walk.") == pytest.approx(3.6, abs=0.5)


def test_pauses_are_within_the_text_only():
    assert reading_time_s("你好。") == reading_time_s("你好")
    assert reading_time_s("你，好") > reading_time_s("你好")


def test_a_text_that_can_be_read_at_once_is_not_cut():
    text = "好的。我知道了。"
    assert list(readable_parts(text)) == [text]


def test_no_character_is_lost_or_repeated():
    text = "他说：“我们明天去。”大家都同意了；可是第二天下起了大雨，谁也没有去成，只好在家里喝茶……真可惜！"
    parts = list(readable_parts(text))
    assert "".join(parts) == text
    assert all(reading_time_s(part) <= 8.5 for part in parts)
    assert not any(part[0] in "，。；！”…" for part in parts)


def test_short_sentences_are_read_with_the_next():
    text = "好。" + "我们明天早上一起去火车站接你的爷爷和奶奶，" * 2 + "别忘了。"
    assert next(readable_parts(text)).startswith("好。我们")
