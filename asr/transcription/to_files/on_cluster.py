"""Transcribes files on the workers of a Dask cluster, each of which loads the model for itself.

with Cluster.connect("tcp://head-node:8786") as cluster:
    recognizer = ClusterRecognizer.load(cluster, "runs/demo")
    num_failed = transcribe_to_file(recognizer, audio_files(["recordings"]), Path("out.jsonl"), "jsonl")
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from asr.base.cluster import Cluster
from asr.base.errors import UserError
from asr.base.work import OnProgress, Work, ignore_progress
from asr.runs.run import Run
from asr.transcription.decoder_choice import DecoderChoice
from asr.transcription.file_recognizer import LoadedFrom, file_chunks
from asr.transcription.files import STANDARD_INPUT
from asr.transcription.recognizer import Recognizer
from asr.transcription.to_files.journal import model_digest
from asr.transcription.transcript import Transcript


@dataclass(frozen=True)
class ModelThere:
    """What a worker loads.

    Attributes:
        run: directory of the run, a model file or its address; absolute.
        choice: the decoder; with absolute paths.
        digest: of the files that were loaded here, which those of the worker must equal.
    """

    run: str
    choice: DecoderChoice
    digest: str


class ClusterRecognizer:
    """A `FileRecognizer` whose files the workers of a cluster transcribe.

    Args:
        cluster: of the workers.
        model: that they load.
        origin: what the same model was loaded from here.
    """

    num_devices = 1  # chunks equal those of one device, and so do the scores

    def __init__(self, cluster: Cluster, model: ModelThere, origin: LoadedFrom) -> None:
        self._cluster, self._model, self.origin = cluster, model, origin

    @classmethod
    def load(
        cls,
        cluster: Cluster,
        run: str | Path,
        choice: DecoderChoice | None = None,
        on_progress: OnProgress = ignore_progress,
    ) -> ClusterRecognizer:
        """Load a run here, which reports mistakes at once and makes the graph that the workers load.

        Args:
            cluster: of the workers.
            run: as in `Recognizer.load`.
            choice: the decoder; None for that of the run's settings.
            on_progress: receives how much of a language model has been read.

        Raises:
            UserError: as in `Recognizer.load`.
        """
        opened = Run.open(run)
        choice = choice or DecoderChoice(opened.decoder_settings())
        origin = Recognizer.of_run(opened, choice, on_progress=on_progress).origin
        assert origin is not None
        there = ModelThere(_absolute(run), _with_absolute_paths(choice), model_digest(origin.files))
        return cls(cluster, there, origin)

    def transcribe_files(
        self,
        paths: Sequence[Path],
        on_progress: OnProgress = ignore_progress,
        chunk_sizes: Sequence[int] | None = None,
    ) -> Iterator[Transcript | UserError]:
        """Yield the transcript of each file, in order; see `FileRecognizer`."""
        if any(str(path) == STANDARD_INPUT for path in paths):
            raise UserError(f"{STANDARD_INPUT}: standard input stays on this machine; leave out `cluster`")
        num_done, total = 0, len(paths)
        chunks = file_chunks(paths, self.num_devices, chunk_sizes)
        if chunks:
            on_progress(Work("transcribing", 0, total, "recordings"))
        results = self._cluster.results(functools.partial(_transcribed_there, self._model), chunks)
        with contextlib.closing(results):
            for of_chunk in results:
                yield from of_chunk
                num_done += len(of_chunk)
                on_progress(Work("transcribing", num_done, total, "recordings"))


def _with_absolute_paths(choice: DecoderChoice) -> DecoderChoice:
    """Return a choice without what it has loaded, for workers, which have another working directory."""
    settings, hot_words, hanzi_model = choice.settings, choice.hot_words, choice.hanzi_model
    if settings.language_model:
        settings = dataclasses.replace(settings, language_model=_absolute(settings.language_model))
    if hot_words and hot_words.path:
        hot_words = dataclasses.replace(hot_words, path=hot_words.path.absolute())
    return dataclasses.replace(
        choice,
        settings=settings,
        hot_words=hot_words,
        hanzi_model=hanzi_model and hanzi_model.absolute(),
    )


def _absolute(path: str | Path) -> str:
    """Return the absolute path of what is there; the name or the address of a model as it is."""
    return str(Path(path).absolute()) if Path(path).exists() else str(path)


_loaded: list[tuple[ModelThere, Recognizer]] = []  # the last one, which a worker keeps for the next chunks
_busy = threading.Lock()


def _transcribed_there(model: ModelThere, paths: list[Path]) -> list[Transcript | UserError]:
    """Transcribe files, on a worker."""
    with _busy:  # a recognizer uses all cores, which another thread of the worker would have to share
        if not _loaded or _loaded[0][0] != model:
            _loaded[:] = [(model, _load_there(model))]
        return list(_loaded[0][1].transcribe_files(paths, chunk_sizes=[len(paths)]))


def _load_there(model: ModelThere) -> Recognizer:
    try:
        recognizer = Recognizer.of_run(Run.open(model.run), model.choice)
    except UserError as error:
        raise UserError(f"worker on {socket.gethostname()}: {error}") from None
    assert recognizer.origin is not None
    if model_digest(recognizer.origin.files) != model.digest:
        raise UserError(
            f"worker on {socket.gethostname()}: {model.run}: the model or its decoder differs from the one "
            "here; every worker needs the same files under the same paths"
        )
    return recognizer
