"""Weights in ASRT's files become runs with the logits of ASRT's graph."""

import h5py
import numpy as np
import pytest
from helpers import asrt
from helpers.full_disk import largest_file

from asr import Recognizer, UserError, import_asrt
from asr.audio.recording import read_audio
from asr.base.config import Config, FeatureConfig, ModelConfig, load_config
from asr.base.vocabulary import Vocabulary
from asr.cli.main import main
from asr.model.acoustic_model import make_acoustic_model
from asr.runs.checkpoint import load_decoding_weights, read_checkpoint
from asr.runs.run import Run
from asr.training.fine_tuning import load_matching
from asr.training.train import resume
from data_pipeline.manifests.manifest import write_manifest

NUM_LINES = 1427
SYLLABLES = ["a1", "lue4", "heng5", "ni3", "nue4", "hao3", "nve4", "heng5", "n2", "hm5", "n3", "ng3"]


@pytest.fixture(scope="module")
def waveform(clips):
    return np.concatenate([read_audio(clip.audio_path) for clip in clips[:2]])


def files_of(folder, network="24", syllables=SYLLABLES, seed=0, **options):
    """Write weights and their dict.txt; return their paths and the layers."""
    folder.mkdir(parents=True, exist_ok=True)
    layers = asrt.random_layers(network, len(syllables) + 1, seed)
    asrt.write_weights(folder / "model.h5", layers, **options)
    (folder / "dict.txt").write_text(asrt.dictionary_text(syllables), encoding="utf-8")
    return folder / "model.h5", folder / "dict.txt", layers


def model_of(run):
    model = make_acoustic_model(run.config(), run.vocabulary())
    load_decoding_weights(run.chosen_checkpoint(), model)
    return model


def columns_of(syllables):
    """Return the outputs of ASRT in the order of a run's vocabulary."""
    kept = [line for line, syllable in enumerate(syllables) if syllable not in syllables[line + 1 :]]
    return [len(syllables), *kept]


@pytest.fixture(scope="module")
def imported_251bn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("251bn")
    syllables = asrt.syllables_of(NUM_LINES)
    weights, dictionary, layers = files_of(folder, "251bn", syllables)
    return import_asrt(weights, folder / "run", dictionary), layers, syllables


def test_logits_padded_to_16_s_without_masks_equal_those_of_asrt(imported_251bn, waveform):
    imported, layers, syllables = imported_251bn
    features = asrt.features(waveform)
    expected = asrt.logits(layers, features)
    padded = np.zeros((1, asrt.NUM_FRAMES, asrt.NUM_BINS), np.float32)
    padded[0, : len(features)] = features
    # all frames count, so nothing is masked
    network = model_of(imported.run).network
    values = network(padded, np.array([asrt.NUM_FRAMES], np.int32)).values.numpy()[0]
    assert values.shape == (200, NUM_LINES)
    assert expected.shape == (200, NUM_LINES + 1)
    assert expected.std() > 0.3
    np.testing.assert_allclose(values, expected[:, columns_of(syllables)], rtol=0, atol=1e-4 * expected.std())


def test_logits_of_clips_equal_those_of_asrt_except_near_the_end(imported_251bn, waveform):
    imported, layers, syllables = imported_251bn
    model = model_of(imported.run)
    expected = asrt.logits(layers, asrt.features(waveform))[:, columns_of(syllables)]
    values = model(waveform[None], np.array([len(waveform)], np.int32)).values.numpy()[0]
    reach = model.network.receptive_field().after
    num_whole = (len(asrt.features(waveform)) - reach) // model.network.SUBSAMPLING
    assert num_whole > 8
    assert (len(values) - num_whole) * model.frame_s < 0.6
    np.testing.assert_allclose(values[:num_whole], expected[:num_whole], rtol=0, atol=2e-3 * expected.std())
    assert np.abs(values[-1] - expected[len(values) - 1]).max() > 0.1 * expected.std()


def test_the_blank_becomes_the_first_output_and_the_untrained_heng5_is_dropped(imported_251bn):
    imported, layers, syllables = imported_251bn
    assert (imported.network, imported.num_outputs) == ("251bn", NUM_LINES + 1)
    assert imported.dropped == ("heng5",)
    assert imported.respelled == {}
    tokens = imported.run.vocabulary().tokens
    assert len(tokens) == NUM_LINES  # 1,426 syllables and the blank
    assert tokens[387] == syllables[386]
    assert tokens[388] == syllables[388]
    assert tokens.index("heng5") == 1368
    weights = read_checkpoint(imported.run.chosen_checkpoint()).decoding_weights
    ours = weights["acoustic_model/network/output/bias"]
    theirs = layers[-2].weights["bias"]
    assert ours[0] == theirs[NUM_LINES]
    assert ours[tokens.index("heng5")] == theirs[1368]
    assert theirs[387] not in ours


@pytest.mark.parametrize("network", ["251", "25", "24"])
def test_every_network_is_recognized_and_has_the_logits_of_asrt(network, tmp_path, waveform):
    weights, dictionary, layers = files_of(tmp_path, network)
    imported = import_asrt(weights, tmp_path / "run", dictionary)
    assert imported.network == network
    features = asrt.features(waveform)[:80]
    expected = asrt.logits(layers, features, len(features))[:, columns_of(SYLLABLES)]
    values = model_of(imported.run).network(features[None], np.array([80], np.int32)).values.numpy()[0]
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-4 * expected.std())


def test_spellings_become_those_of_this_project_unless_the_list_has_both(tmp_path):
    weights, dictionary, _ = files_of(tmp_path)
    imported = import_asrt(weights, tmp_path / "run", dictionary)
    tokens = imported.run.vocabulary().tokens
    assert tokens[1:] == ("a1", "lve4", "ni3", "nue4", "hao3", "nve4", "heng5", "en2", "hm5", "n3", "ng3")
    assert imported.respelled == {"lue4": "lve4", "n2": "en2"}


def test_a_syllable_three_times_in_the_list_is_named_once(tmp_path, capsys):
    weights, dictionary, _ = files_of(tmp_path, syllables=["a1", "ni3", "a1", "a1"])
    assert main(["import-asrt", str(weights), str(dictionary), str(tmp_path / "run")]) == 0
    assert "dropped: a1, in the list more than once" in capsys.readouterr().out
    assert Run(tmp_path / "run").vocabulary().tokens[1:] == ("ni3", "a1")


def test_a_list_without_syllables_is_refused(tmp_path):
    weights, dictionary, _ = files_of(tmp_path, syllables=[])
    with pytest.raises(UserError, match=r"dict\.txt: expected syllables, received none"):
        import_asrt(weights, tmp_path / "run", dictionary)
    assert not (tmp_path / "run").exists()


def test_divided_lists_of_names_and_files_of_whole_models_are_read(tmp_path):
    weights, dictionary, _ = files_of(tmp_path / "a")
    expected = read_checkpoint(import_asrt(weights, tmp_path / "one", dictionary).run.chosen_checkpoint())
    for number, options in enumerate(({"names_at_once": 3}, {"inside": "model_weights"})):
        weights, dictionary, _ = files_of(tmp_path / str(number), **options)
        run = import_asrt(weights, tmp_path / f"run{number}", dictionary).run
        stored = read_checkpoint(run.chosen_checkpoint()).decoding_weights
        for name, values in expected.decoding_weights.items():
            np.testing.assert_array_equal(stored[name], values)


def test_the_dict_txt_of_the_folder_of_asrt_is_found(tmp_path, capsys):
    weights, dictionary, _ = files_of(tmp_path / "ASRT")
    below = tmp_path / "ASRT" / "save_models" / "SpeechModel24"
    below.mkdir(parents=True)
    weights.rename(below / "a.model.h5")
    run = tmp_path / "run"
    assert main(["import-asrt", str(below / "a.model.h5"), str(run)]) == 0
    printed = capsys.readouterr().out
    assert f"ASRT's network 24, 12 of its 13 outputs, named by {dictionary}" in printed
    assert "blank: was output 12, is output 0" in printed
    assert "dropped: heng5, in the list more than once" in printed
    assert "spelled otherwise: lue4 is lve4, n2 is en2" in printed
    dictionary.unlink()
    assert main(["import-asrt", str(below / "a.model.h5"), str(tmp_path / "other")]) == 2
    assert "expected dict.txt in its folder or one of the two above" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_an_imported_run_transcribes_the_syllables_of_its_outputs(tmp_path, clips, capsys):
    weights, dictionary, layers = files_of(tmp_path)
    output = layers[-2].weights
    for line, said in ((3, "ni3"), (len(SYLLABLES), "")):
        output["bias"][:] = 0.0
        output["bias"][line] = 1000.0
        asrt.write_weights(weights, layers)
        run = tmp_path / f"run{line}"
        assert main(["import-asrt", str(weights), str(dictionary), str(run)]) == 0
        assert "asr transcribe" in capsys.readouterr().out.replace("python -m asr", "asr")
        assert Recognizer.load(run, write_hanzi=False).transcribe(clips[0].audio_path).text == said


def test_an_imported_run_is_listed_compared_and_cannot_be_resumed(tmp_path, capsys):
    weights, dictionary, _ = files_of(tmp_path / "asrt")
    run = import_asrt(weights, tmp_path / "imported", dictionary).run.directory
    Run.create(tmp_path / "other", Config(), Vocabulary(["a1"]))
    assert main(["runs", str(run)]) == 0
    assert f"imported from the 24 of ASRT in {weights}" in " ".join(capsys.readouterr().out.split())
    assert main(["compare", str(run), str(tmp_path / "other")]) == 0
    assert "imported" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"no optimizer and cannot be resumed.*train\.init_from="):
        resume(run)


def test_an_imported_run_has_no_set_and_the_commands_that_need_one_name_an_option(tmp_path, clips, capsys):
    weights, dictionary, _ = files_of(tmp_path / "asrt")
    run = str(import_asrt(weights, tmp_path / "run", dictionary).run.directory)
    assert main(["export", run, str(tmp_path / "out")]) == 2
    assert "this run has no test or dev set" in (error := capsys.readouterr().err)
    assert "--manifest" in error
    assert main(["label", run, clips[0].audio_path, "--out", str(tmp_path / "l.jsonl")]) == 2
    assert "this run has no dev set" in (error := capsys.readouterr().err)
    assert "--dev" in error


def test_all_imported_weights_are_loaded_to_fine_tune(tmp_path):
    weights, dictionary, _ = files_of(tmp_path)
    run = import_asrt(weights, tmp_path / "run", dictionary).run
    config = load_config(run.directory / "config.toml", ["train.epochs=3"])
    vocabulary = Vocabulary(["hao3", "ni3", "zhong1"])
    model = make_acoustic_model(config, vocabulary, for_training=True)
    source = read_checkpoint(run.chosen_checkpoint()).decoding_weights
    loaded = load_matching(model, vocabulary, source, run.vocabulary())
    assert loaded.initialized == loaded.unused == ()
    assert set(loaded.shared_tokens) == {"ni3", "hao3"}
    kernel = np.asarray(model.network.weights[-2])
    stored = source["acoustic_model/network/output/kernel"]
    np.testing.assert_array_equal(kernel[:, 1], stored[:, run.vocabulary().encode(["hao3"])[0]])


@pytest.mark.slow
def test_an_imported_run_is_evaluated_and_fine_tuned_by_the_commands(tmp_path, clips, capsys):
    syllables = sorted({token for clip in clips for token in clip.tokens})
    weights, dictionary, _ = files_of(tmp_path, syllables=syllables)
    run = tmp_path / "runs" / "asrt"
    assert main(["import-asrt", str(weights), str(dictionary), str(run)]) == 0
    manifest = tmp_path / "clips.jsonl"
    write_manifest(manifest, clips)
    assert main(["evaluate", str(run), str(manifest)]) == 0
    config = tmp_path / "mine.toml"
    config.write_text(
        f"""
        extends = "{run}/config.toml"
        [data]
        train = "{manifest}"
        dev = "{manifest}"
        test = "{manifest}"
        vocabulary = "{run}/vocabulary.txt"
        [train]
        epochs = 1
        init_from = "{run}"
        runs_dir = "{tmp_path}/runs"
        """,
        encoding="utf-8",
    )
    assert main(["train", str(config)]) == 0
    said = capsys.readouterr()
    assert "loaded: 15 of 15 weights" in said.err + said.out
    tuned = Run.open(tmp_path / "runs" / "mine")
    assert tuned.vocabulary().tokens == Run.open(run).vocabulary().tokens
    assert len(tuned.metrics()) == 1


def damaged(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path):
    path.write_bytes(b"")


def other_file(path):
    path.write_bytes(b"PK\3\4" + bytes(1000))


def keras_3(path):
    with h5py.File(path, "w") as file:
        file.create_group("layers/conv2d/vars").create_dataset("0", data=np.zeros((3, 3), np.float32))


def without_an_array(path):
    with h5py.File(path, "a") as file:
        del file["dense_23/dense_23/kernel:0"]


def one_layer_more(path):
    layers = asrt.random_layers("24", 10)
    asrt.write_weights(path, [*layers, asrt.Layer("dense_9", {"kernel": np.zeros((10, 10), np.float32)})])


def other_shape(path):
    layers = asrt.random_layers("24", 10)
    layers[3].weights["kernel"] = np.zeros((5, 5, 32, 32), np.float32)
    asrt.write_weights(path, layers)


def not_a_number(path):
    layers = asrt.random_layers("24", 10)
    layers[3].weights["kernel"][0, 0, 0, 0] = np.nan
    asrt.write_weights(path, layers)


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (damaged, r"damaged, or not an HDF5 file"),
        (empty, r"damaged, or not an HDF5 file"),
        (other_file, r"damaged, or not an HDF5 file"),
        (without_an_array, r"damaged, or not an HDF5 file"),
        (keras_3, r"expected weights as Keras 2 saves them.*found layers"),
        (
            one_layer_more,
            r"expected .* 251bn, 251, 25, 24, received 16 arrays instead of 64 or 23 or 19 or 15",
        ),
        (
            other_shape,
            r"15 arrays, as 24 has, but in layer conv2d_18 kernel \(5x5x32x32\) instead of .*3x3x32x32",
        ),
        (not_a_number, r"layer conv2d_18: .*kernel:0: expected finite values.*NaN"),
        (lambda path: path.unlink(), r"cannot read these weights \(No such file"),
    ],
)
def test_files_that_are_no_weights_of_asrt_are_refused(tmp_path, capsys, spoil, expected):
    weights, dictionary, _ = files_of(tmp_path / "asrt")
    spoil(weights)
    with pytest.raises(UserError, match=expected) as raised:
        import_asrt(weights, tmp_path / "runs" / "new", dictionary)
    assert str(raised.value).startswith(str(weights))
    assert not (tmp_path / "runs").exists()
    assert main(["import-asrt", str(weights), str(dictionary), str(tmp_path / "new")]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_every_changed_byte_is_refused_or_harmless(tmp_path):
    """Neither a traceback nor a half-written run may follow from a damaged file."""
    weights, _, _ = files_of(tmp_path / "asrt")
    whole = weights.read_bytes()
    random = np.random.default_rng(0)
    num_refused = 0
    for place in [*range(0, 2000, 40), *random.integers(2000, len(whole), 20)]:
        changed = bytearray(whole)
        changed[place] ^= 0xFF
        weights.write_bytes(changed)
        try:
            arrays = read_arrays_of(weights)
        except UserError:
            num_refused += 1
        else:
            assert arrays
    assert num_refused > 0


def read_arrays_of(path):
    from asr.export.asrt.keras2_file import read_arrays
    from asr.export.asrt.networks import recognize_network

    return recognize_network(read_arrays(path), path).weights


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (SYLLABLES[:-1], r"expected 12 syllables, one a line, as .*model\.h5 has 13 outputs.* received 11"),
        ([*SYLLABLES, "a2"], r"received 13"),
        ([*SYLLABLES[:-1], "ni 3"], r"'ni 3' is empty or contains a space"),
        ([], r"received 0"),
    ],
)
def test_a_dictionary_that_does_not_fit_the_outputs_is_refused(tmp_path, lines, expected):
    weights, dictionary, _ = files_of(tmp_path / "asrt")
    dictionary.write_text(asrt.dictionary_text(lines), encoding="utf-8")
    with pytest.raises(UserError, match=expected) as raised:
        import_asrt(weights, tmp_path / "run", dictionary)
    assert str(raised.value).startswith(str(dictionary))
    assert not (tmp_path / "run").exists()


def test_a_run_that_exists_is_not_touched(tmp_path):
    weights, dictionary, _ = files_of(tmp_path / "asrt")
    (tmp_path / "run").mkdir()
    with pytest.raises(UserError, match=r"run: already exists"):
        import_asrt(weights, tmp_path / "run", dictionary)
    assert list((tmp_path / "run").iterdir()) == []


def test_a_full_disk_leaves_no_partial_run(tmp_path):
    weights, dictionary, _ = files_of(tmp_path / "asrt")
    with largest_file(100_000), pytest.raises(UserError, match="cannot write"):
        import_asrt(weights, tmp_path / "run", dictionary)
    assert [path.name for path in tmp_path.iterdir()] == ["asrt"]


def test_the_settings_of_an_imported_run_are_those_of_asrt(tmp_path):
    weights, dictionary, _ = files_of(tmp_path)
    config = import_asrt(weights, tmp_path / "run", dictionary).run.config()
    assert config.features == FeatureConfig(kind="spectrogram", normalize=False)
    assert config.model == ModelConfig(family="dcnn24")
