from pathlib import Path

import pytest
from helpers.object_storage import object_storage

from asr.base.errors import UserError
from asr.base.text.pieces import UNITS_MODEL, learn_pieces
from asr.base.text.units import LearnedUnits
from asr.evaluation.perplexity import measure_perplexity
from asr.training.language_model import NGramSettings, train_language_models

TEXT = "我们去学校。\n他们去公园!\n我们明天去北京,他们后天去上海。\n" * 5


def test_language_models_are_trained_and_measured_from_python(tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text(TEXT + "3\n", encoding="utf-8")
    reported = []
    trained = train_language_models([str(text)], tmp_path / "lm", ["words"], on_progress=reported.append)
    assert list(trained.units) == ["words"]
    assert (trained.num_sentences, trained.left_out) == (20, {"digits": 1})
    assert reported[-1].task == "counting words"
    assert reported[-1].is_done
    (found,) = measure_perplexity(trained.folder, [str(text)]).fits
    assert (found.unit, found.fit.num_words) == ("words", trained.num_words)
    assert 1 < found.fit.perplexity < 20
    assert capsys.readouterr() == ("", "")


def test_second_training_into_one_folder_is_refused(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    refused = []

    def train_meanwhile(work):
        if not refused:
            with pytest.raises(UserError, match="another asr lm train is running there") as raised:
                train_language_models([str(text)], tmp_path / "lm", ["syllables"])
            refused.append(raised)

    train_language_models([str(text)], tmp_path / "lm", ["words"], on_progress=train_meanwhile)
    assert refused
    assert {path.name for path in (tmp_path / "lm").iterdir()} >= {"info.json", "words.klm"}
    assert {path.name for path in tmp_path.iterdir()} == {"lm", "text.txt"}


def interrupt(_work):
    raise KeyboardInterrupt


def test_what_a_killed_training_left_is_removed_and_the_old_models_are_restored(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    train_language_models([str(text)], tmp_path / "lm", ["words"])
    left = tmp_path / ".lm.part"
    left.mkdir()
    (tmp_path / "lm").rename(left / "old")
    (left / "new").mkdir()
    (left / "new" / "half").touch()
    with pytest.raises(KeyboardInterrupt):
        train_language_models([str(text)], tmp_path / "lm", ["syllables"], on_progress=interrupt)
    assert (tmp_path / "lm" / "words.klm").exists()
    left.mkdir()
    (left / "old").mkdir()
    (left / "old" / "of_the_time_before").touch()
    train_language_models([str(text)], tmp_path / "lm", ["words"])
    assert {path.name for path in (tmp_path / "lm").iterdir()} >= {"info.json", "words.klm"}
    assert {path.name for path in tmp_path.iterdir()} == {"lm", "text.txt"}


def test_interruption_while_a_folder_is_replaced_leaves_the_old_models(tmp_path, monkeypatch):
    text = tmp_path / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    train_language_models([str(text)], tmp_path / "lm", ["words"])
    before = {path.name: path.read_bytes() for path in (tmp_path / "lm").iterdir()}
    rename, renamed = Path.rename, []

    def interrupted(path, target):
        renamed.append(path)
        if len(renamed) == 2:
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_language_models([str(text)], tmp_path / "lm", ["syllables"])
    assert len(renamed) == 3
    assert {path.name: path.read_bytes() for path in (tmp_path / "lm").iterdir()} == before
    assert {path.name for path in tmp_path.iterdir()} == {"lm", "text.txt"}


def test_text_at_an_address_is_split_by_the_model_of_pieces_beside_it(tmp_path):
    lines = ["the cat sat on the mat", "the dog sat on the log"] * 5
    learn_pieces(lines, LearnedUnits("bpe", 20)).save(tmp_path / UNITS_MODEL)
    with object_storage() as bucket:
        text = bucket.put("\n".join(lines).encode(), "texts/news.txt")
        with pytest.raises(UserError, match=f"`pieces`: no units.model beside {text}"):
            train_language_models([text], tmp_path / "lm", ["pieces"])
        bucket.put(tmp_path / UNITS_MODEL, f"texts/{UNITS_MODEL}")
        assert train_language_models([text], tmp_path / "lm", ["pieces"]).num_sentences == 10


@pytest.mark.parametrize("wrong", [{"order": 1}, {"max_size_mb": 0}, {"memory_mb": 1}])
def test_language_model_errors_name_the_parameter(wrong, tmp_path):
    with pytest.raises(UserError, match=f"`{next(iter(wrong))}`: expected"):
        train_language_models([], tmp_path / "lm", settings=NGramSettings(**wrong))


def test_language_model_without_units_is_an_error(tmp_path):
    with pytest.raises(UserError, match="`units`: expected"):
        train_language_models([], tmp_path / "lm", [])
