import pytest

from asr.base.config import BUILT_IN, RECIPE, Config, dump_config, find_config, load_config
from asr.base.errors import UserError


@pytest.fixture
def write(tmp_path):
    def write_file(name, text):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


def test_a_file_overrides_what_it_extends_and_overrides_replace_both(write):
    write("base.toml", "[train]\nepochs = 3\nseed = 4\nbatch_s = 9.5\n")
    path = write("child.toml", 'extends = "base.toml"\n[train]\nepochs = 5\n')
    train = load_config(path, ["train.seed=6"]).train
    assert (train.epochs, train.seed, train.batch_s) == (5, 6, 9.5)


def test_manifests_may_be_addresses():
    overrides = ["data.machine_labelled=s3://b/one.jsonl,two.jsonl", "data.more_tests=s3://b/three.jsonl"]
    data = load_config(BUILT_IN / "demo.toml", overrides).data
    assert [str(path) for path in data.machine_labelled_manifests] == ["s3://b/one.jsonl", "two.jsonl"]
    assert [str(path) for path in data.more_test_manifests] == ["s3://b/three.jsonl"]


def test_a_dumped_configuration_loads_unchanged(write):
    config = load_config(BUILT_IN / "demo.toml", ['data.source=a "quoted" ü\\path', "train.learning_rate=1"])
    assert load_config(write("config.toml", dump_config(config))) == config
    assert config.train.learning_rate == 1.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[train]\nepoch = 3", r"train\.epoch: no such key \(did you mean epochs\?\)"),
        ("[trian]\nepochs = 3", r"trian: no such section \(did you mean train\?\)"),
        ("[train]\nepochs = 3.5", r"train\.epochs: expected a whole number, received 3\.5"),
        ("[train]\nepochs = true", r"train\.epochs: expected a whole number, received True"),
        ('[features]\nkind = "mfccs"', r"features\.kind: expected one of .*\(did you mean mfcc\?\)"),
        ("[train]\nepochs = 0", r"train\.epochs: expected 1 to 1e\+09, received 0"),
        ("[train]\nclip_norm = inf", r"train\.clip_norm: expected 1e-09 to 1e\+09, received inf"),
        ("[train]\nbatch_s = nan", r"train\.batch_s: expected"),
        ("[augment]\nspeed_min = 0", r"augment\.speed_min: expected 0\.25 to 4"),
        ('[model]\nfamily = "seperable"', r"model\.family: expected one of .*\(did you mean separable\?\)"),
        ("[features]\npitch = 'maybe'", r"features\.pitch: expected true or false, received 'maybe'"),
        ("[data]\nsource = 2024", r"data\.source: expected text, received 2024; put it in quotes"),
        ("train = 3", r"train: expected a section \[train\], received 3"),
        ("[train\n", r"not valid TOML"),
        ("extends = 3", r"extends: expected the name of a file"),
        ('extends = "none.toml"', r"none\.toml: cannot read"),
        ('extends = "bad.toml"', r"extends itself"),
    ],
)
def test_errors_name_the_file_the_key_and_what_was_expected(write, text, message):
    path = write("bad.toml", text)
    with pytest.raises(UserError, match=message) as error:
        load_config(path)
    assert str(path.parent) in str(error.value)


@pytest.mark.parametrize("override", ["train.epochs", "epochs=3", "=", "train.epochs=many"])
def test_malformed_overrides_are_refused(override):
    with pytest.raises(UserError, match="`overrides="):
        load_config(BUILT_IN / "demo.toml", [override])


@pytest.mark.parametrize(
    ("overrides", "rate"),
    [
        ([], 3e-3),
        (["model.family=conformer"], 1e-3),
        (["model.family=conformer", "train.learning_rate=0.2"], 0.2),
    ],
)
def test_learning_rate_is_the_networks_own_unless_one_is_set(overrides, rate):
    loaded = load_config("demo", overrides)
    assert loaded.train.learning_rate == rate
    assert f"learning_rate = {rate}" in dump_config(loaded)


def test_every_built_in_configuration_loads():
    for path in BUILT_IN.glob("*.toml"):
        assert isinstance(load_config(path), Config)


def test_configurations_are_found_by_name_and_by_path(write):
    assert find_config("demo") == BUILT_IN / "demo.toml"
    path = write("mine.toml", "")
    assert find_config(str(path)) == path
    assert load_config("demo") == load_config(BUILT_IN / "demo.toml") == load_config("demo.toml")
    with pytest.raises(UserError, match=r"no such configuration \(did you mean demo\?\)"):
        find_config("dmo")


@pytest.fixture
def parent(tmp_path):
    """Return the folder of a run with another network than those of the built-in configurations."""
    folder = tmp_path / "parent"
    folder.mkdir()
    config = load_config(
        "demo", ["model.stem=2d", "model.dropout=0.3", "features.num_mels=40", "train.epochs=9"]
    )
    (folder / "config.toml").write_text(dump_config(config), encoding="utf-8")
    return folder


def test_fine_tuning_has_settings_of_its_own_and_the_network_of_the_other_run(parent):
    usual, tuned = load_config("demo"), load_config("demo", [f"train.init_from={parent}"])
    assert (tuned.model.stem, tuned.model.dropout, tuned.features.num_mels) == ("2d", 0.3, 40)
    for section, settings in RECIPE[1].items():
        for key, value in settings.items():
            if key != "learning_rate":
                assert getattr(getattr(tuned, section), key) == value
    assert tuned.train.learning_rate == 0  # chosen when the parent has been evaluated
    assert tuned.train.weight_decay < usual.train.weight_decay
    assert tuned.train.batch_s == usual.train.batch_s


def test_what_the_user_sets_wins_over_the_settings_of_fine_tuning(write, parent):
    path = write(
        "mine.toml",
        f"""
        extends = "{BUILT_IN}/demo.toml"
        [model]
        stem = "1d"
        [train]
        init_from = "{parent}"
        weight_decay = 0.3
        """,
    )
    tuned = load_config(path, ["train.epochs=7", "train.flat_start=0.1"])
    assert (tuned.train.weight_decay, tuned.train.epochs, tuned.train.flat_start) == (0.3, 7, 0.1)
    assert (tuned.model.stem, tuned.model.dropout) == ("1d", 0.3)
    assert tuned.augment.speed_min == RECIPE[1]["augment"]["speed_min"]  # the built-in file is not the user's


def test_the_stored_configuration_of_either_run_is_not_resolved_again_and_not_the_users_own(write, parent):
    tuned = load_config("demo", [f"train.init_from={parent}", "train.weight_decay=0.3"])
    stored = write("config.toml", dump_config(tuned))
    assert load_config(stored, (), Config()) == load_config(stored) == tuned
    path = write("mine.toml", f'extends = "parent/config.toml"\n[train]\ninit_from = "{parent}"\n')
    assert load_config(path).train.epochs == RECIPE[1]["train"]["epochs"]
