import contextlib
import os
from pathlib import Path

import pytest
from helpers.full_disk import largest_file
from helpers.transcripts import transcript_of

from asr.base.errors import UserError
from asr.transcription.to_files.journal import model_digest, open_journal


def transcript_named(name):
    """Return a transcript whose text is the name of its recording."""
    return transcript_of(
        ("ni3", "hao3"), Path(name).stem, score=-1.2345678901234567, end_s=1.2345678901234567
    )


def error_of(name):
    return UserError(f"{name}: empty file")


@pytest.fixture
def sources(tmp_path):
    paths = [tmp_path / f"{letter}.wav" for letter in "abcdef"]
    for path in paths:
        path.write_text(path.name)
        os.utime(path, (0, 0))  # as unpacked from an archive: only the names differ
    return paths


@pytest.fixture
def out(tmp_path):
    return tmp_path / "results.csv"


@contextlib.contextmanager
def interrupted_journal(out, sources, model="model"):
    """Yield a journal whose command is interrupted at the end of the block."""
    with contextlib.suppress(KeyboardInterrupt), open_journal(out, model, sources) as journal:
        yield journal
        raise KeyboardInterrupt


def interrupt(out, sources, results):
    """Return the path of the journal that an interruption after these results leaves."""
    with interrupted_journal(out, sources) as journal:
        journal.add(results)
    return journal.path


@pytest.fixture
def interrupted(out, sources):
    """Return the path of a journal with the results of four of six recordings."""
    return interrupt(
        out,
        sources,
        [transcript_named(sources[0]), error_of(sources[1]), *map(transcript_named, sources[2:4])],
    )


def reopened(out, sources, model="model"):
    """Return (rows, failed rows, reason, results) of a journal that is opened again."""
    with interrupted_journal(out, sources, model) as journal:
        return journal.num_rows, journal.num_failed, journal.reason, list(journal.results())


def test_results_of_an_interrupted_journal_are_read_back_unchanged(interrupted, out, sources):
    rows, failed, reason, results = reopened(out, sources)
    assert (rows, failed, reason) == (4, 1, "")
    assert [results[0], *results[2:]] == [transcript_named(sources[place]) for place in (0, 2, 3)]
    assert isinstance(results[1], UserError)
    assert str(results[1]) == str(error_of(sources[1]))


def test_an_interruption_is_logged_with_a_hint_how_to_resume(out, sources, caplog):
    caplog.set_level("INFO")
    path = interrupt(out, sources, [transcript_named(source) for source in sources[:4]])
    (logged,) = caplog.messages
    assert logged.startswith(f"{path}: ")
    assert "4 of 6 recordings are kept" in logged
    assert "same command again" in logged


@pytest.mark.parametrize("num_bytes", [1, 40, 200])
def test_a_torn_last_line_is_dropped(num_bytes, interrupted, out, sources):
    os.truncate(interrupted, interrupted.stat().st_size - num_bytes)
    with open_journal(out, "model", sources) as journal:
        assert (journal.num_rows, journal.reason) == (3, "")
        journal.add([transcript_named(source) for source in sources[3:]])
        assert [str(result) for result in journal.results()] == [
            str(error_of(source) if source == sources[1] else transcript_named(source)) for source in sources
        ]


def test_a_tail_of_zeros_is_dropped(interrupted, out, sources):
    """A power failure may leave such a tail."""
    with interrupted.open("ab") as file:
        file.write(bytes(100) + b"\n")
    assert reopened(out, sources)[0] == 4


@pytest.mark.parametrize(("num_rows", "num_left"), [(4, 1), (3, 2), (1, 3), (0, 3)])
def test_an_incomplete_chunk_is_transcribed_again_as_a_whole(num_rows, num_left, interrupted, out, sources):
    lines = interrupted.read_bytes().splitlines(keepends=True)
    interrupted.write_bytes(b"".join(lines[: 1 + num_rows]))
    chunks = [sources[:2], sources[2:4], sources[4:]]
    with open_journal(out, "model", sources) as journal:
        assert journal.remaining_chunks(chunks) == chunks[3 - num_left :]
        assert journal.num_rows == 6 - 2 * num_left
        journal.add([transcript_named(source) for source in sources[journal.num_rows :]])
        assert [result.text for result in list(journal.results())[-2:]] == ["e", "f"]


def test_a_journal_of_another_model_is_discarded(interrupted, out, sources):
    rows, failed, reason, results = reopened(out, sources, "other")
    assert (rows, failed, results) == (0, 0, [])
    assert "another model or version" in reason
    assert not interrupted.exists()  # nothing was transcribed


@pytest.mark.parametrize("place", [0, 2])
def test_rows_are_kept_up_to_the_first_recording_that_changed(place, interrupted, out, sources):
    sources[place].write_text("another")
    rows, _, reason, _ = reopened(out, sources)
    assert rows == place
    assert f"from {sources[place]} on" in reason


def test_rows_are_kept_up_to_the_first_recording_in_another_place(interrupted, out, sources):
    rows, _, reason, _ = reopened(out, [*sources[:3], *sources[4:]])
    assert rows == 3
    assert f"from {sources[4]} on" in reason
    with open_journal(out, "model", sources) as journal:
        assert journal.num_rows == 3  # the rows that no longer match are gone


def test_a_journal_with_more_rows_than_recordings_is_complete(interrupted, out, sources):
    rows, _, reason, results = reopened(out, sources[:2])
    assert (rows, reason, len(results)) == (2, "", 2)


def test_a_missing_file_is_kept_as_missing_until_it_appears(out, sources):
    sources[0].unlink()
    interrupt(out, sources, [error_of(sources[0])])
    assert reopened(out, sources)[0] == 1
    sources[0].write_text("there")
    assert reopened(out, sources)[0] == 0


@pytest.mark.parametrize("kind", ["standard input", "pipe"])
def test_a_source_that_can_be_read_only_once_is_never_resumed(kind, out, sources, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    sources[1] = Path("-") if kind == "standard input" else tmp_path / "pipe"
    interrupt(out, sources, [transcript_named(source) for source in sources[:3]])
    assert reopened(out, sources)[0] == 1


def test_a_recording_that_changes_during_transcription_is_transcribed_again(out, sources):
    with interrupted_journal(out, sources) as journal:
        sources[1].write_text("changed before it was read")
        journal.add([transcript_named(source) for source in sources[:3]])
    assert reopened(out, sources)[0] == 1


def test_file_names_that_are_not_utf_8_are_resumed(out, tmp_path):
    path = Path(os.fsdecode(bytes(tmp_path / "bad") + b"\xff.wav"))
    path.write_text("")
    interrupt(out, [path], [transcript_named(path)])
    assert reopened(out, [path])[3] == [transcript_named(path)]


def test_no_journal_is_left_after_success_or_without_results(out, sources):
    with open_journal(out, "model", sources) as journal:
        journal.add([transcript_named(source) for source in sources])
    with interrupted_journal(out, sources):
        pass
    assert not list(out.parent.glob("results*"))


def test_two_commands_cannot_write_the_same_journal(out, sources):
    with open_journal(out, "model", sources) as journal:
        journal.add([transcript_named(sources[0])])
        with pytest.raises(UserError, match=r"another `asr transcribe` or `asr label` is writing"):
            reopened(out, sources)
        assert journal.path.exists()


def test_a_full_disk_is_reported_and_complete_rows_are_kept(out, sources):
    def fill():
        with open_journal(out, "model", sources) as journal:
            for source in sources:
                journal.add([transcript_named(source)])

    error = pytest.raises(UserError, match=r"results\.csv\.unfinished: cannot write .*free space there")
    with largest_file(800), error:
        fill()
    num_rows = reopened(out, sources)[0]
    assert 0 < num_rows < len(sources)


def test_a_journal_that_cannot_be_written_is_an_error_with_its_path(tmp_path, sources):
    with (
        pytest.raises(UserError, match=r"a\.wav/results\.csv: cannot write"),
        open_journal(sources[0] / "results.csv", "model", sources),
    ):
        pass


def test_a_models_digest_depends_on_the_contents_of_its_files_alone(tmp_path):
    files = [tmp_path / "best.npz", tmp_path / "config.toml"]
    for path in files:
        path.write_text(path.name)
    before = model_digest(files)
    os.utime(files[0], (0, 0))
    assert model_digest(files) == before
    for path in files:
        path.write_text("other")
        assert model_digest(files) != before
        path.write_text(path.name)
