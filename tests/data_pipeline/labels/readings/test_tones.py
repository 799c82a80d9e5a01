import pytest

from data_pipeline.labels.from_text import ReadingPolicy, label

SPOKEN = ReadingPolicy("spoken")


@pytest.mark.parametrize(
    ("text", "syllables"),
    [
        ("你好", "ni2 hao3"),
        ("展览馆", "zhan2 lan2 guan3"),
        ("小老虎", "xiao3 lao2 hu3"),
        ("我很好", "wo3 hen2 hao3"),
        ("你，好", "ni3 hao3"),
        ("不是", "bu2 shi4"),
        ("不好", "bu4 hao3"),
        ("不，是", "bu4 shi4"),
        ("一定", "yi2 ding4"),
        ("一天", "yi4 tian1"),
        ("一直", "yi4 zhi2"),
        ("一起", "yi4 qi3"),
        ("一个", "yi2 ge4"),
        ("第一天", "di4 yi1 tian1"),
        ("星期一", "xing1 qi1 yi1"),
        ("二〇一九年", "er4 ling2 yi1 jiu3 nian2"),
        ("十一月", "shi2 yi1 yue4"),
        ("三千一百", "san1 qian1 yi4 bai3"),
        ("一月一日", "yi1 yue4 yi1 ri4"),
        ("看一看", "kan4 yi2 kan4"),
        ("老李买好酒", "lao2 li3 mai2 hao2 jiu3"),
        ("统一", "tong3 yi1"),
        ("统一战线", "tong3 yi1 zhan4 xian4"),
        ("传统一样", "chuan2 tong3 yi2 yang4"),
        ("唯一的", "wei2 yi1 de5"),
        ("简单一点", "jian3 dan1 yi4 dian3"),
        ("逐一检查", "zhu2 yi1 jian3 cha2"),
        ("万一下雨", "wan4 yi1 xia4 yu3"),
        ("周一下午", "zhou1 yi1 xia4 wu3"),
        ("每周一次", "mei3 zhou1 yi2 ci4"),
        ("每星期一次", "mei3 xing1 qi1 yi2 ci4"),
        ("划一不二", "hua4 yi1 bu2 er4"),
        ("划一个圈", "hua4 yi2 ge4 quan1"),
        ("同一人", "tong2 yi1 ren2"),
        ("同一个", "tong2 yi2 ge4"),
        ("同一天", "tong2 yi4 tian1"),
        ("长短不一", "chang2 duan3 bu4 yi1"),
        ("大小不一的", "da4 xiao3 bu4 yi1 de5"),
        ("不一定", "bu4 yi2 ding4"),
        ("不一样", "bu4 yi2 yang4"),
        ("不一致", "bu4 yi2 zhi4"),
        ("不一会儿", "bu4 yi2 hui4 er5"),
        ("三年一班", "san1 nian2 yi1 ban1"),
        ("拿下一等奖", "na2 xia4 yi1 deng2 jiang3"),
        ("等一班车", "deng3 yi4 ban1 che1"),
        ("坐一号线", "zuo4 yi1 hao4 xian4"),
        ("我们", "wo3 men5"),
        ("給我", "gei2 wo3"),
    ],
)
def test_spoken_tones_change_before_others(text, syllables):
    assert " ".join(label(text, "syllables", SPOKEN)) == syllables


def test_citation_tones_are_the_default():
    assert label("你好一定不是", "syllables") == ("ni3", "hao3", "yi1", "ding4", "bu4", "shi4")


def test_spoken_tones_keep_the_number_of_syllables_with_spaces_and_marks():
    text = "给-我 想一想，你好 吗"
    assert len(label(text, "syllables", SPOKEN)) == len(label(text, "syllables")) == 8
