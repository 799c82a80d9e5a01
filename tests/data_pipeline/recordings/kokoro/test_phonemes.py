import pytest

from asr.base.errors import UserError
from asr.base.text.pinyin import mandarin_syllables
from data_pipeline.labels.from_text import label
from data_pipeline.recordings.kokoro.phonemes import phonemes_of, spelled, symbol_ids

# as misaki 0.9.4 spells them: every initial, final and tone
MISAKI = (
    "ba1 pa→, po4 pʰwo↘, mai3 mai↓, fei1 fei→, dao4 tau↘, tou2 tʰou↗, nan2 na↗n, lv4 ly↘, nve4 nɥe↘, "
    "gen1 kə→n, kang4 kʰa↘ŋ, heng2 xə↗ŋ, ju2 ʨy↗, quan2 ʨʰɥɛ↗n, xun4 ɕy↘n, zhong1 ꭧʊ→ŋ, chuang2 ꭧʰwa↗ŋ, "
    "shi4 ʂɨ↘, ri4 ɻɨ↘, zi5 ʦɨ, cuo4 ʦʰwo↘, sui4 swei↘, liu2 ljou↗, jia1 ʨja→, xian4 ɕjɛ↘n, liang3 "
    "lja↓ŋ, xiao3 ɕjau↓, xie2 ɕje↗, jin1 ʨi→n, bing4 pi↘ŋ, xiong2 ɕjʊ↗ŋ, gua1 kwa→, kuai4 kʰwai↘, guan1 "
    "kwa→n, lun2 lwə↗n, yi1 i→, ya4 ja↘, yan2 jɛ↗n, yang2 ja↗ŋ, yao4 jau↘, ye3 je↓, yin1 i→n, ying3 "
    "i↓ŋ, yong4 jʊ↘ŋ, you3 jou↓, yu3 y↓, yue4 ɥe↘, yuan2 ɥɛ↗n, yun2 y↗n, wu3 u↓, wa5 wa, wo3 wo↓, wai4 "
    "wai↘, wei4 wei↘, wan3 wa↓n, wen4 wə↘n, wang2 wa↗ŋ, weng1 wə→ŋ, er2 ɚ↗, e4 ɤ↘, o2 ɔ↗, ai4 ai↘, en1 "
    "ə→n, ang2 a↗ŋ, de5 tɤ, hm5 hm, m2 m↗, ng4 ŋ↘, den4 tə↘n, lve4 lɥe↘, ei1 ei→"
)


@pytest.mark.parametrize("pair", MISAKI.split(", "))
def test_syllables_are_spelled_as_kokoro_was_trained(pair):
    syllable, spelling = pair.split()
    assert phonemes_of(syllable) == spelling


def test_every_syllable_equals_the_package_that_kokoro_was_trained_with():
    zh = pytest.importorskip("misaki.zh", reason="pip install 'misaki[zh]' to compare with it")
    own = {}
    for syllable in mandarin_syllables():
        if syllable[:-1] not in ("wong", "yo"):  # misaki says yo as wo
            own[syllable] = phonemes_of(syllable)
    assert len(own) > 1800
    theirs = {syllable: zh.ZHG2P.py2ipa(syllable).replace("\u032f", "") for syllable in own}
    assert own == theirs


@pytest.mark.parametrize(
    ("text", "spelling"),
    [
        (
            "今天天气很好，我们去公园散步吧。",
            "ʨi→ntʰjɛ→ntʰjɛ→nʨʰi↘ xə↓n xau↓, wo↓mən ʨʰy↘ kʊ→ŋɥɛ↗n sa↘npu↘ pa.",
        ),
        ("“你喜欢吗？”他问。", "“ni↓ ɕi↓xwa→n ma? ” tʰa→ wə↘n."),
        ("真的（没有）……好！", "ꭧə→ntɤ (mei↗jou↓) …xau↓!"),
    ],
)
def test_words_are_separated_and_punctuation_is_kept(text, spelling):
    assert spelled(text, label(text, "syllables")).replace("……", "…") == spelling


def test_the_labels_decide_the_reading():
    assert spelled("银行", ["yin2", "xing2"]) == "i↗nɕi↗ŋ"


def test_characters_without_a_symbol_separate_words():
    assert spelled("好*~的☺", ["hao3", "de5"]) == "xau↓ tɤ"


@pytest.mark.parametrize("syllable", ["", "5", "xyz1", "ni", "ni6", "Ni3", "wong4", "好3"])
def test_what_is_no_syllable_raises_with_its_name(syllable):
    with pytest.raises(UserError, match="Kokoro cannot say"):
        phonemes_of(syllable)


def test_other_number_of_syllables_than_hanzi_raises():
    with pytest.raises(UserError, match="expected 2 syllables"):
        spelled("你好", ["ni3"])


def test_every_symbol_has_its_id_of_the_model():
    assert symbol_ids("ꭧʊ→ŋ kwo↗, ni↓?") == [23, 135, 171, 112, 16, 53, 65, 57, 172, 3, 16, 56, 51, 169, 6]
    for syllable in mandarin_syllables():
        if not syllable.startswith("wong"):
            assert symbol_ids(phonemes_of(syllable))
