from itertools import product

import numpy as np
import pytest
from helpers.transcripts import segment_of

from asr.audio.noise_level import signal_to_noise_db
from asr.audio.recording import WINDOW_SAMPLES
from asr.base.types import Utterance
from asr.evaluation.errors.hanzi_errors import hanzi_errors
from asr.evaluation.errors.mandarin_errors import known_confusions, syllable_errors
from asr.evaluation.errors.metrics import AlignedPair, align


def errors_of(said, recognized):
    return syllable_errors(align(said.split(), recognized.split()))


def confused(errors, part):
    return [(c.said, c.recognized, c.count, c.out_of) for c in errors.parts[part].confusions]


def known(said, recognized):
    return [one.name.split(":")[0] for one in known_confusions(errors_of(said, recognized))]


def test_a_wrong_syllable_counts_in_every_part_that_is_wrong():
    errors = errors_of("zhong1 guo2 ren2 hao3", "zong1 guo4 li3 hao3")
    assert (errors.num_compared, errors.num_substituted) == (4, 3)
    found = {name: (part.wrong, part.only) for name, part in errors.parts.items()}
    assert found == {"initial": (2, 1), "final": (1, 0), "tone": (2, 1)}


def test_confusions_are_ordered_by_count_and_know_how_often_the_sound_was_said():
    errors = errors_of("nan2 ni3 nü3 na4 an1", "lan2 li3 nü3 na4 ang1")
    assert confused(errors, "initial") == [("n", "l", 2, 3)]  # nü3 is not a syllable: ü is written v
    assert confused(errors, "final") == [("an", "ang", 1, 2)]
    assert errors.parts["initial"].confusions[0].rate == pytest.approx(2 / 3)


def test_tones_are_counted_for_aligned_syllables_and_lost_for_deleted_ones():
    tone_pairs = list(product(range(1, 6), repeat=2))
    pairs = [AlignedPair("substitution", f"ma{a}", f"ba{b}") for a, b in tone_pairs for _ in range(a)]
    pairs += [AlignedPair("deletion", "ma3", ""), AlignedPair("substitution", "ma3", "<unk>")]
    pairs += [AlignedPair("insertion", "", "ma4"), AlignedPair("substitution", "ng", "ma4")]
    errors = syllable_errors(pairs)
    assert errors.tones == [[tone] * 5 for tone in range(1, 6)]
    assert errors.lost_tones == [0, 0, 2, 0, 0]


@pytest.mark.parametrize(
    ("said", "recognized", "names"),
    [
        ("zhi1", "zi1", ["flat and retroflex"]),
        ("su4", "shu4", ["flat and retroflex"]),
        ("nan2", "lan2", ["n and l"]),
        ("hu2", "fu2", ["f and h"]),
        ("yin1", "ying1", ["front and back nasals"]),
        ("lian2", "liang2", ["front and back nasals"]),
        ("dun4", "dong4", ["front and back nasals"]),
        ("yi4", "yu4", ["rounded and unrounded"]),
        ("ju2", "ji2", ["rounded and unrounded"]),
        ("zhi1", "chi1", ["aspirated and unaspirated"]),
        ("ma2", "ma3", ["tones 2 and 3"]),
        ("ma4", "ma1", ["tones 1 and 4"]),
        ("ma3", "ma1", ["other full tones"]),
        ("le5", "le4", ["a full tone and the neutral one"]),
        ("ni3", "hao3", []),
        ("si4", "xi4", ["palatal and flat or retroflex"]),
    ],
)
def test_well_known_confusions_are_found_in_both_directions(said, recognized, names):
    assert known(said, recognized) == names
    assert known(recognized, said) == names


def test_the_rate_of_a_well_known_confusion_counts_the_times_it_could_occur():
    texts = ("zha1 zha1 zha1 za1 za1 sha1 ba1", "za1 za1 zha1 zha1 za1 sha1 ba1")
    both = zip(*map(str.split, texts), strict=True)
    pairs = [AlignedPair("substitution", said, recognized) for said, recognized in both]
    (one,) = known_confusions(syllable_errors(pairs))
    assert (one.count, one.out_of) == (3, 6)  # sh could have been confused with s
    assert [(c.said, c.count) for c in one.examples] == [("zh", 2), ("z", 1)]
    (one,) = known_confusions(errors_of("xi1 xi1 xi1", "si1 shi1 xi1"))
    assert (one.count, one.out_of) == (2, 3)  # a sound confused with two others was still said three times
    texts = ("zi1 " * 10 + "zhi1 " * 90, "zhi1 " * 5 + "zi1 " * 5 + "zhi1 " * 90)
    both = zip(*map(str.split, texts), strict=True)
    (one,) = known_confusions(syllable_errors(AlignedPair("substitution", *pair) for pair in both))
    assert (one.count, one.out_of) == (5, 100)  # also where only one of the two is ever wrong


def hanzi(text, tokens, hypothesis_text, hypothesis_tokens):
    utterance = Utterance("u", "u.wav", 1.0, text, tuple(tokens.split()))
    return utterance, segment_of(hypothesis_tokens.split(), hypothesis_text)


def test_wrong_hanzi_are_split_by_whether_their_syllable_is_right():
    errors = hanzi_errors(
        [
            hanzi("他的书，好！", "ta1 de5 shu1 hao3", "她得苏好", "ta1 de5 su1 hao3"),
            hanzi("他说", "ta1 shuo1", "在她说了", "zai4 ta1 shuo1 le5"),  # the insertion shifts nothing
            hanzi("你好", "ni3 hao3", "你", "ni2"),
        ]
    )
    assert errors is not None
    assert (errors.num_said, errors.syllable_right, errors.syllable_wrong, errors.saved) == (8, 3, 4, 1)
    assert errors.examples == [(("他", "她", "ta1"), 2), (("的", "得", "de5"), 1)]


def test_compatibility_code_points_of_a_hanzi_are_equal():
    errors = hanzi_errors([hanzi("银\ufa08", "yin2 hang2", "银行", "yin2 hang2")])
    assert errors is not None
    assert (errors.num_said, errors.syllable_right, errors.num_not_compared) == (2, 0, 0)


def test_utterances_without_one_hanzi_per_syllable_are_counted_as_not_compared():
    whole = hanzi("你好", "ni3 hao3", "你号", "ni3 hao3")
    marked = hanzi("你好", "ni3 hao3", "你<lv5>", "ni3 lv5")
    errors = hanzi_errors([whole, marked])
    assert errors is not None
    assert (errors.num_said, errors.num_not_compared) == (2, 1)
    assert hanzi_errors([hanzi("你好", "ni3 hao3", "ni3 hao3", "ni3 hao3")]) is None


@pytest.mark.parametrize("snr_db", [0, 5, 10, 20, 30, 40])
@pytest.mark.parametrize("exponent", [0.0, 0.5], ids=["white", "pink"])
def test_noise_of_a_known_level_is_measured_within_2_5_decibels(clips, snr_db, exponent):
    from asr.audio.recording import read_audio

    rng = np.random.default_rng(0)
    off = []
    for clip in clips:
        speech = read_audio(clip.audio_path).astype(np.float64)
        spectrum = np.fft.rfft(rng.standard_normal(len(speech)))
        noise = np.fft.irfft(spectrum / np.maximum(np.arange(len(spectrum)), 10) ** exponent, len(speech))
        powers = np.square(speech[: len(speech) // WINDOW_SAMPLES * WINDOW_SAMPLES]).reshape(
            -1, WINDOW_SAMPLES
        )
        powers = powers.mean(axis=1)
        power = powers[powers > powers.max() / 1000].mean()
        noise *= np.sqrt(power / np.square(noise).mean() / 10 ** (snr_db / 10))
        mixed = np.clip(np.rint(speech + noise), -32768, 32767).astype(np.int16)
        off.append(signal_to_noise_db(mixed) - snr_db)
    assert abs(np.median(off)) < 2.5, off


@pytest.mark.parametrize("samples", [np.zeros(400), np.full(16000, 77), np.zeros(16000)])
def test_silence_has_a_finite_signal_to_noise_ratio(samples):
    assert -20 < signal_to_noise_db(samples.astype(np.int16)) < 20
