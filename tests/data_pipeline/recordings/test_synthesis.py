import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio
from asr.base.errors import UserError
from asr.base.text.pinyin import mandarin_syllables
from data_pipeline.manifests.manifest import read_manifest
from data_pipeline.recordings.synthesis import Synthesizer, synthesize_corpus

pytest.importorskip("espeakng_loader", reason="speech synthesis: pip install espeakng-loader")

WINDOW_SAMPLES = 640  # 40 ms, two periods of the lowest voice


@pytest.fixture(scope="module")
def synthesizer():
    return Synthesizer()


def duration_s(waveform):
    return len(waveform) / SAMPLE_RATE_HZ


def pitch_hz(waveform):
    """Return the fundamental frequency every 10 ms of voiced speech, by normalized autocorrelation."""
    track = []
    lags = np.arange(SAMPLE_RATE_HZ // 300, SAMPLE_RATE_HZ // 60)
    for start in range(0, len(waveform) - WINDOW_SAMPLES, 160):
        window = waveform[start : start + WINDOW_SAMPLES].astype(np.float64)
        product = np.correlate(window, window, "full")[WINDOW_SAMPLES - 1 :]
        energy = np.concatenate([[0.0], np.cumsum(window**2)])
        overlap = np.sqrt(energy[WINDOW_SAMPLES - lags] * (energy[-1] - energy[lags]))
        likeness = product[lags] / np.maximum(overlap, 1.0)
        if likeness.max() > 0.6:
            track.append(SAMPLE_RATE_HZ / lags[likeness.argmax()])
    return np.array(track)


def thirds(track):
    """Return the median of each third of a pitch contour."""
    return [float(np.median(part)) for part in np.array_split(track, 3)]


def test_each_tone_has_its_contour(synthesizer):
    high, rising, dipping, falling, neutral = (
        thirds(pitch_hz(synthesizer.say([f"hao{tone}"]))) for tone in "12345"
    )
    assert max(high) < 1.05 * min(high)
    assert rising[0] < rising[1] < rising[2] > 1.07 * rising[0]
    assert dipping[0] > dipping[1] < dipping[2]
    assert falling[0] > falling[1] > falling[2] < 0.93 * falling[0]
    assert neutral[1] < 0.9 * high[1]


def test_every_syllable_that_can_be_said_sounds_like_one_syllable(synthesizer):
    sayable = [syllable for syllable in mandarin_syllables() if synthesizer.can_say(syllable)]
    assert len(sayable) > 1500
    for syllable in sayable[::5]:  # as letters "jiong1" takes 0.50 s, "xiong1" 0.60 s
        waveform = synthesizer.say([syllable])
        assert 0.1 < duration_s(waveform) < 0.53, syllable
        assert np.abs(waveform.astype(np.int32)).max() > 3000, syllable


def test_only_syllables_without_a_vowel_and_wong_cannot_be_said(synthesizer):
    unsayable = {syllable[:-1] for syllable in mandarin_syllables() if not synthesizer.can_say(syllable)}
    assert unsayable <= {"m", "n", "ng", "hm", "hng", "ê", "wong"}


def test_v_is_read_as_umlaut_and_not_as_a_letter(synthesizer):
    assert abs(duration_s(synthesizer.say(["lv3"])) - duration_s(synthesizer.say(["li3"]))) < 0.02


@pytest.mark.parametrize("initial", ["j", "q", "x"])
def test_iong_syllables_unknown_to_espeak_are_said(synthesizer, initial):
    excess_s = duration_s(synthesizer.say([f"{initial}iong1"])) - duration_s(
        synthesizer.say([f"{initial}iang1"])
    )
    assert 0 <= excess_s < 0.08  # in English it is 0.13 to 0.21 s
    between = duration_s(synthesizer.say(["ma1", f"{initial}iong1", "ma1"]))
    assert between < duration_s(synthesizer.say(["ma1", f"{initial}iang1", "ma1"])) + 0.12
    first, _, last = thirds(pitch_hz(synthesizer.say([f"{initial}iong4"])))
    assert last < 0.95 * first


def test_duration_grows_with_the_number_of_syllables(synthesizer):
    one = duration_s(synthesizer.say(["zhong1"]))
    assert duration_s(synthesizer.say(["zhong1"] * 200)) == pytest.approx(200 * one, rel=0.15)


@pytest.mark.parametrize(
    "syllable",
    ["", "5", "a", "lü3", "Ni3", "ma0", "ma6", "nihao3", "ni3hao3", "ni3 hao3", "n2", "wong4", "熊2"],
)
def test_invalid_syllable_raises_with_its_name(synthesizer, syllable):
    with pytest.raises(UserError, match=f"'{syllable}': espeak cannot say"):
        synthesizer.say(["ni3", syllable])


def test_rate_shortens_speech_and_pitch_raises_the_voice(synthesizer):
    words = ["zhong1", "guo2", "ren2"]
    slow, fast = (duration_s(synthesizer.say(words, rate_wpm=rate)) for rate in (130, 260))
    assert 1.6 < slow / fast < 2.6
    low, high = (np.median(pitch_hz(synthesizer.say(["ma1"], pitch=pitch))) for pitch in (20, 80))
    assert 1.5 < high / low < 2.2


def test_variant_changes_the_voice_for_one_call_only(synthesizer):
    plain, woman, again = (
        np.median(pitch_hz(synthesizer.say(["ma1"], variant=variant))) for variant in ("", "f2", "")
    )
    assert woman > 1.6 * plain
    assert again == pytest.approx(plain, rel=0.05)


@pytest.mark.parametrize(
    ("options", "name"),
    [({"rate_wpm": 79}, "rate_wpm"), ({"pitch": 101}, "pitch"), ({"variant": "x"}, "'x'")],
)
def test_unsupported_rate_pitch_or_variant_raises(synthesizer, options, name):
    with pytest.raises(UserError, match=name):
        synthesizer.say(["ni3"], **options)


def test_say_without_syllables_raises(synthesizer):
    with pytest.raises(UserError, match="at least one syllable"):
        synthesizer.say([])


def test_two_synthesizers_do_not_affect_each_other():
    first, second = Synthesizer(), Synthesizer()
    waveforms = []
    for _ in range(3):  # the phase of the pitch flutter continues from call to call
        waveforms.append(first.say(["ni3", "hao3"], variant="f5"))
        second.say(["zhong1", "guo2"], rate_wpm=250, variant="m3")
    alone = Synthesizer()
    for waveform in waveforms:
        np.testing.assert_array_equal(alone.say(["ni3", "hao3"], variant="f5"), waveform)


def digest(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    assert files
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()


def test_same_seed_gives_the_same_corpus_in_any_process(tmp_path):
    options = {"num_utterances": 8, "variants": ["f5", "m3"]}  # f5 is breathy: espeak adds noise
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        synthesize_corpus(tmp_path / name, seed=seed, **options)
    program = (
        "import pathlib, sys; from data_pipeline.recordings.synthesis import synthesize_corpus\n"
        "assert 'espeakng_loader' not in sys.modules\n"  # importing the module does not load espeak
        f"synthesize_corpus(pathlib.Path({str(tmp_path / 'd')!r}), seed=1, **{options!r})"
    )
    subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert digest(tmp_path / "a") == digest(tmp_path / "b") == digest(tmp_path / "d")
    assert digest(tmp_path / "a") != digest(tmp_path / "c")


def test_smaller_corpus_equals_the_beginning_of_a_larger_one(tmp_path):
    small, large = (
        read_manifest(synthesize_corpus(tmp_path / str(n), num_utterances=n, seed=3)) for n in (3, 6)
    )
    assert [u.text for u in small] == [u.text for u in large[:3]]
    assert [u.duration_s for u in small] == [u.duration_s for u in large[:3]]


def test_manifest_describes_the_synthesized_files(tmp_path):
    manifest = synthesize_corpus(tmp_path, num_utterances=40, seed=0)
    utterances = read_manifest(manifest)
    known = set(mandarin_syllables())
    assert [u.id for u in utterances] == [f"espeak-{number:05d}" for number in range(1, 41)]
    assert {len(u.tokens) for u in utterances} == set(range(2, 11))
    assert len({u.speaker for u in utterances}) > 5
    for utterance in utterances:
        waveform = read_audio(tmp_path / "audio" / f"{utterance.id}.wav")
        assert utterance.duration_s == pytest.approx(duration_s(waveform), abs=1e-4)
        assert utterance.text == " ".join(utterance.tokens)
        assert set(utterance.tokens) <= known
        assert not waveform[:1600].any()
        assert not waveform[-1600:].any()
        spoken_s = duration_s(waveform) - 0.2
        assert 0.08 < spoken_s / len(utterance.tokens) < 0.6, utterance


def test_speaker_of_the_default_voice_is_named_by_its_pitch(tmp_path):
    manifest = synthesize_corpus(tmp_path, num_utterances=6, seed=0, variants=[""])
    pitches = [int(u.speaker.removeprefix("espeak-p")) for u in read_manifest(manifest)]
    assert len(set(pitches)) > 1
    assert all(20 <= pitch <= 80 for pitch in pitches)


def test_existing_manifest_raises_and_is_kept(tmp_path):
    (tmp_path / "manifest.jsonl").write_text("mine")
    with pytest.raises(UserError, match="remove it or choose another folder"):
        synthesize_corpus(tmp_path, num_utterances=1, seed=0)
    assert (tmp_path / "manifest.jsonl").read_text() == "mine"


@pytest.mark.parametrize(
    "options",
    [{"num_utterances": 0}, {"seed": -1}, {"variants": []}],
)
def test_numbers_out_of_range_raise(tmp_path, options):
    with pytest.raises(UserError, match=r"`num_utterances` of at least 1|one of `variants`"):
        synthesize_corpus(tmp_path, **{"num_utterances": 1, "seed": 0, **options})


def test_unknown_variant_raises_before_anything_is_written(tmp_path):
    with pytest.raises(UserError, match="'nobody'"):
        synthesize_corpus(tmp_path / "out", num_utterances=1, seed=0, variants=["", "nobody"])
    assert not (tmp_path / "out").exists()


def test_missing_espeak_package_raises_with_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    with pytest.raises(UserError, match=r'pip install "polyphone\[synthesize\]"'):
        Synthesizer()


def test_failing_espeak_call_raises_with_its_name(monkeypatch, tmp_path):
    monkeypatch.setattr("espeakng_loader.get_data_path", lambda: str(tmp_path))
    with pytest.raises(UserError, match="espeak_Initialize"):
        Synthesizer()
    monkeypatch.undo()
    monkeypatch.setattr("data_pipeline.recordings.synthesis.VOICE", "no-such-voice")
    with pytest.raises(UserError, match="espeak_SetVoiceByName"):
        Synthesizer()
