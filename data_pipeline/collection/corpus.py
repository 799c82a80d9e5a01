"""Write the takes of a folder as a corpus: the files that `asr prepare` writes, by its own functions."""

from __future__ import annotations

from collections.abc import Sequence

from asr.base.system.files import cannot_write
from asr.base.types import Utterance
from data_pipeline.collection.take import Take
from data_pipeline.collection.takes import Takes
from data_pipeline.manifests.left_out import write_left_out
from data_pipeline.preparation.description import (
    LEFT_OUT,
    LabelsDescription,
    PreparedCorpus,
    prepared_before,
    split_summary,
    write_manifests,
)
from data_pipeline.preparation.splitting import FEW_SPEAKERS, complete_splits, splits_by_speaker
from data_pipeline.types import NO_SUCH_AUDIO, LeftOut, Recording

CORPUS = "record"  # in prepared.json
IN_DOUBT = "perhaps not said as written; record it again, or accept it on the page"


def write_corpus(takes: Takes) -> PreparedCorpus:
    """Write manifests of all takes that are not in doubt, and a list of the others.

    Train, dev and test have different speakers where there are at least three, and else different sentences.

    Raises:
        UserError: a file cannot be written.
    """
    folder, units = takes.folder, takes.settings.units
    everything = takes.all()
    kept = {take.id: take for take in everything if not take.in_doubt}
    splits, note = _splits(list(kept.values()))
    found = {
        split: [_utterance(takes, kept[recording.id]) for recording in recordings]
        for split, recordings in splits.items()
        if recordings
    }
    left_out = [LeftOut(take.audio, IN_DOUBT, take.text) for take in everything if take.in_doubt]
    missing = [take for take in takes.missing if takes.find(take.speaker, take.prompt) is None]
    left_out += [LeftOut(take.audio, NO_SUCH_AUDIO, take.text) for take in missing]
    origin = {"corpus": CORPUS, "source": "", "units": units}
    labels = LabelsDescription(takes.settings.labels_version) if units == "syllables" else None
    # a first try may have had other units, before there was a take
    before = prepared_before(folder, origin, other_units=True)
    try:
        write_left_out(folder / LEFT_OUT, left_out)
        manifests = write_manifests(folder, origin, before.manifests, found, labels)
    except OSError as error:
        raise cannot_write(folder, "corpus", error) from None
    summaries = {split: split_summary(utterances) for split, utterances in found.items()}
    num_found = len(everything) + len(missing)
    return PreparedCorpus(CORPUS, folder, manifests, summaries, note, num_found, left_out, labels)


def _splits(takes: Sequence[Take]) -> tuple[dict[str, Sequence[Recording]], str]:
    recordings = [Recording(take.id, take.audio, take.text, take.speaker, take.tokens) for take in takes]
    if len({take.speaker for take in takes}) >= FEW_SPEAKERS:
        return splits_by_speaker(recordings)
    return complete_splits({"all": recordings})


def _utterance(takes: Takes, take: Take) -> Utterance:
    path = str(takes.folder / take.audio)
    return Utterance(take.id, path, take.duration_s, take.text, take.tokens, take.speaker)
