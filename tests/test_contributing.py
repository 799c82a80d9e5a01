"""The examples of CONTRIBUTING.md: each is taken from the page, registered as the page says, and used."""

import re
import sys
from importlib.util import module_from_spec, spec_from_file_location, spec_from_loader

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import ROOT, pages

from asr.base import registry
from asr.base.config import load_config, replaced
from asr.base.vocabulary import Vocabulary
from asr.cli import main as program
from asr.ctc.loss import ctc_loss
from asr.model.acoustic_model import make_acoustic_model
from data_pipeline.corpora import CORPORA
from data_pipeline.manifests.manifest import read_manifest

PAGE = "CONTRIBUTING.md"
VOCABULARY = Vocabulary(["an4", "ma1", "ma3", "ni3"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("examples")


@pytest.fixture(scope="module", autouse=True)
def examples(folder):
    """Import every example under its name in the packages, and register it by the page's line for it."""
    text = pages.text_of(PAGE)
    with pytest.MonkeyPatch.context() as patch:
        modules = {}
        for block in pages.blocks(PAGE):
            if block.language == "python":
                path = re.match(r"# (\S+)\.py\n", block.text)[1]
                assert not (ROOT / f"{path}.py").exists()
                file, name = folder / f"{path.replace('/', '-')}.py", path.replace("/", ".")
                file.write_text(block.text, encoding="utf-8")
                spec = spec_from_file_location(name, file)
                modules[name] = module_from_spec(spec)
                patch.setitem(sys.modules, name, modules[name])
                spec.loader.exec_module(modules[name])
        for table in ("NETWORKS", "FEATURE_KINDS"):
            name, part = re.search(
                rf'`{table}` of `asr/base/registry\.py`: `"(\w+)": "([\w.:]+)"`', text
            ).groups()
            patch.setitem(getattr(registry, table), name, part)
        assert '`"two_towns": two_towns.CORPUS`' in text
        patch.setitem(CORPORA, "two_towns", modules["data_pipeline.corpora.public.two_towns"].CORPUS)
        command = re.search(r"`(Command\(.*?\))`", text)[1]
        scope = {"Command": program.Command, **vars(modules["asr.cli.commands.data.hours"])}
        patch.setattr(program, "COMMANDS", (*program.COMMANDS, eval(command, scope)))
        yield modules


def test_an_example_corpus_is_prepared_and_an_example_command_reads_it(clips, folder, capsys):
    source = folder / "two-towns"
    (source / "wav").mkdir(parents=True)
    lines = []
    for number, clip in enumerate(clips):
        name = f"speaker{number % 4}-{number}"
        (source / "wav" / f"{name}.wav").symlink_to(clip.audio_path)
        lines.append(f"{name}\t{clip.text}\n")
    (source / "text.tsv").write_text("".join(lines), encoding="utf-8")
    assert program.main(["prepare", "two_towns", str(source), str(folder / "prepared")]) == 0
    manifests = sorted((folder / "prepared").glob("*.jsonl"))
    utterances = [utterance for path in manifests for utterance in read_manifest(path)]
    assert sorted(u.text for u in utterances) == sorted(clip.text for clip in clips)
    assert {u.speaker for u in utterances} == {f"speaker{number}" for number in range(4)}
    capsys.readouterr()
    assert program.main(["hours", *map(str, manifests)]) == 0
    hours = sum(u.duration_s for u in utterances) / 3600
    assert capsys.readouterr().out == f"{hours:.2f} h\n"


def apply_diff(text, read):
    """Return the files that a diff changes, by path, with the changes; its hunks need no line numbers."""
    changed = {}
    for part in re.split(r"^--- a/.*\n\+\+\+ b/", text, flags=re.MULTILINE)[1:]:
        path, _, hunks = part.partition("\n")
        changed[path] = read(path)
        for hunk in re.split(r"^@@\n", hunks, flags=re.MULTILINE)[1:]:
            before, after = (
                "".join(line[1:] + "\n" for line in hunk.splitlines() if line[:1] in (" ", sign))
                for sign in "-+"
            )
            assert changed[path].count(before) == 1, f"{path}: not as the page says: {before}"
            changed[path] = changed[path].replace(before, after)
    return changed


def test_an_example_decoder_option_is_a_setting_and_changes_the_search(monkeypatch):
    (diff,) = [block.text for block in pages.blocks(PAGE) if block.language == "diff"]
    for path, text in apply_diff(diff, pages.text_of).items():
        name = path.removesuffix(".py").replace("/", ".")
        module = module_from_spec(spec_from_loader(name, None))
        monkeypatch.setitem(sys.modules, name, module)
        exec(compile(text, path, "exec"), module.__dict__)
    settings = sys.modules["asr.base.decoder_settings"]
    log_probs = np.log(np.array([[0.6, 0.4, 1e-9, 1e-9, 1e-9]], np.float32))
    found = []
    for penalty in (0.0, 1.0):
        chosen = replaced(settings.DecoderSettings(beam=4), {"blank_penalty": penalty}, "")
        search = sys.modules["asr.ctc.beam_search"].BeamSearch(VOCABULARY, chosen)
        found.append(search.decode(log_probs[None], np.array([1]))[0][0].ids)
    assert found == [(), (1,)]


def test_an_example_network_learns_from_example_features_and_is_saved(folder):
    config = load_config("demo", ["model.family=strided", "features.kind=log_power"])
    model = make_acoustic_model(config, VOCABULARY, for_training=True)
    audio = np.random.default_rng(0).integers(-3000, 3000, (2, 8000)).astype(np.int16)
    num_samples = np.array([8000, 6000], np.int32)
    features, num_frames = model.features(audio, num_samples)
    assert features.shape == (2, 48, 257)
    assert not np.any(features[1, int(num_frames[1]) :])

    labels, num_labels = np.array([[1, 2, 3], [4, 1, 0]], np.int32), np.array([3, 2], np.int32)
    optimizer = keras.optimizers.Adam(1e-3)
    losses = []
    for _ in range(3):
        with tf.GradientTape() as tape:
            logits = model(audio, num_samples)
            loss = tf.reduce_mean(ctc_loss(logits, labels, num_labels))
        losses.append(float(loss))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    assert losses[2] < losses[0]

    alone = model(audio[1:, :6000], num_samples[1:])
    together = model(audio, num_samples)
    model.save(folder / "model.keras")
    copy = keras.models.load_model(folder / "model.keras")
    np.testing.assert_allclose(copy(audio, num_samples).values, together.values, rtol=1e-4, atol=1e-5)
    shortest = model(audio[:1, :400], np.array([400], np.int32))
    assert int(shortest.num_frames[0]) == model.num_output_frames(400) == 0
    length = int(alone.num_frames[0])
    assert int(together.num_frames[1]) == length == model.num_output_frames(6000)
    np.testing.assert_allclose(together.values[1, :length], alone.values[0, :length], rtol=1e-3, atol=1e-3)
