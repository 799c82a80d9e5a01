"""Read corpora distributed as an archive of archives: one `S0002.tar.gz` per speaker."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from asr.base.download import NoRoomError
from asr.base.errors import UserError
from asr.base.work import OnProgress, ignore_progress
from data_pipeline.corpora.layout import corpus_folder, files_below
from data_pipeline.corpora.matching import ClipFile, lines_of_table, match, require_recordings
from data_pipeline.download.archives import unpack_into
from data_pipeline.manifests.left_out import Partition, partition
from data_pipeline.types import SPLITS, CorpusReading, LeftOut
from data_pipeline.work import in_parallel

AUDIO = ".wav"
ARCHIVE = ".tar.gz"
UNREADABLE = "unreadable archive"
NOT_UNPACKABLE = "archive that cannot be unpacked"
WITHOUT_AUDIO = "archive without audio"


def read_speakers(
    source: Path, target: Path, audio: str, table: str, layout: str, on_progress: OnProgress
) -> CorpusReading:
    """Read a corpus with one archive per speaker, unpacked or not, and one table of transcripts.

    Args:
        source: the folder given by the user.
        target: the folder of prepared files; speakers still packed are unpacked below it.
        audio: the folder of the archives, relative to the corpus's folder.
        table: the file of transcripts, relative to the corpus's folder.
        layout: what is expected, for errors.
        on_progress: receives how many speakers are unpacked.

    Raises:
        UserError: the folder does not hold the corpus.
    """
    folder = corpus_folder(source, (audio, table), layout)
    clips, left_out = clips_and_archives(folder / audio, target, on_progress)
    return require_recordings(match(clips, lines_of_table(folder / table), left_out), source, layout)


def clips_and_archives(
    folder: Path, target: Path, on_progress: OnProgress = ignore_progress
) -> Partition[ClipFile]:
    """Return the clips below a folder and in the archives there, unpacked below `target / "unpacked"`.

    An archive beside a folder of its name with audio in it was unpacked in place and is not opened. The
    split is the folder `train`, `dev` or `test` above a clip, the speaker is the clip's own folder.

    Args:
        folder: of the corpus.
        target: the folder of prepared files.
        on_progress: receives how many archives are unpacked.

    Returns:
        The clips, and the archives that could not be used.
    """
    loose: list[Path] = []
    archives: list[Path] = []
    for path in files_below(folder, (AUDIO, ARCHIVE)):
        (archives if path.name.lower().endswith(ARCHIVE) else loose).append(path)
    in_place = {path.parent.name for path in loose}
    packed = [path for path in archives if _stem(path) not in in_place]
    homes = {path: target / "unpacked" / path.parent.relative_to(folder) / _stem(path) for path in packed}
    left_out = _unpack_all(homes, on_progress)

    clips = _clips(folder, loose)
    for home in homes.values():
        clips += _clips(target / "unpacked", files_below(home, (AUDIO,)))
    inside = partition(
        clip if clip.split else LeftOut(str(clip.path), "audio outside train, dev and test") for clip in clips
    )
    return Partition(inside.kept, left_out + inside.left_out)


def _stem(archive: Path) -> str:
    return archive.name[: -len(ARCHIVE)]


def _clips(base: Path, paths: Iterable[Path]) -> list[ClipFile]:
    clips = []
    for path in paths:
        split = next((part for part in path.relative_to(base).parts[:-1] if part in SPLITS), "")
        clips.append(ClipFile(path, split, path.parent.name))
    return clips


def _unpack_all(homes: dict[Path, Path], on_progress: OnProgress) -> list[LeftOut]:
    """Unpack each archive into its folder, unless that exists: a folder with this name is complete."""
    missing = [(archive, home) for archive, home in homes.items() if not home.is_dir()]
    if not missing:
        return []
    # zlib releases the interpreter lock while it works
    results = in_parallel(
        lambda pair: _unpack(*pair), missing, "unpacking speakers", at_once=1, on_progress=on_progress
    )
    return [result for result in results if result]


def _unpack(archive: Path, home: Path) -> LeftOut | None:
    part = home.with_name(f".{home.name}.part")  # hidden, so never read as a speaker
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        unpack_into(part, archive)
        if next(files_below(part, (AUDIO,)), None) is None:
            return LeftOut(str(archive), WITHOUT_AUDIO)
        part.rename(home)
    except NoRoomError:
        raise
    except UserError as error:
        return LeftOut(str(archive), NOT_UNPACKABLE, str(error).removeprefix(f"{archive}: "))
    except OSError as error:
        if error.filename != str(archive):  # such as a full disk: not the archive's fault
            raise
        return LeftOut(str(archive), UNREADABLE, str(error.strerror))
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return None
