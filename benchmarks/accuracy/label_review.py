"""Measures how many of the labels that an evaluation doubts are wrong, where one label in ten is spoiled.

    python -m benchmarks.accuracy.label_review RUN MANIFEST [--draws N]

200 utterances of the manifest, whose labels should be right, are evaluated by each checkpoint that the run
has kept (`train.keep_last` keeps more). 20 have a spoiled label: in 8 a syllable is replaced, in 6 two
neighbours are left out, and 6 have the transcripts of one another.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import statistics
from collections.abc import Sequence
from pathlib import Path

from asr.base.types import Utterance
from asr.model.devices import start_devices
from benchmarks.common import show
from data_pipeline.manifests.manifest import read_manifest

NUM_LABELS, NUM_REPLACED, NUM_DROPPED, NUM_SWAPPED = 200, 8, 6, 6
BATCH_S = 60.0
DRAWS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the precision of labels that may be wrong.")
    parser.add_argument("run", type=Path, metavar="RUN", help="a run directory")
    parser.add_argument("manifest", type=Path, metavar="MANIFEST", help="of at least 200 right labels")
    parser.add_argument("--draws", type=int, default=DRAWS, metavar="N", help="draws of spoiled labels")
    arguments = parser.parse_args()
    start_devices()
    from asr.evaluation.evaluator import Evaluator
    from asr.evaluation.labels.label_review import review_labels
    from asr.runs.checkpoint import load_decoding_weights
    from asr.runs.run import Run
    from asr.transcription.recognizer import Recognizer
    from data_pipeline.batches.dataset import Dataset

    run, utterances = Run.open(arguments.run), read_manifest(arguments.manifest)
    right = {utterance.id: utterance.tokens for utterance in utterances}
    recognizer = Recognizer.trained(run)
    evaluator = Evaluator(recognizer.runner, recognizer.vocabulary)
    rows = {}
    for path in run.checkpoints():
        load_decoding_weights(path, recognizer.model)
        rates, found = [], []
        for seed in range(arguments.draws):
            evaluation = evaluator.evaluate(
                Dataset(spoiled(utterances, seed), recognizer.vocabulary, BATCH_S)
            )
            review = review_labels(evaluation)
            rates.append(evaluation.edits.rate)
            wrong = sum(right[one.utterance.id] != one.utterance.tokens for one in review.candidates)
            found.append("silent" if review.why_none else f"{wrong} of {len(review.candidates)}")
        rows[path.stem] = f"{statistics.mean(rates):6.1%} of the syllables contradicted: {', '.join(found)}"
    show("doubted labels that are wrong, of 200 with 20 wrong ones, by draw", rows)


def spoiled(utterances: Sequence[Utterance], seed: int) -> list[Utterance]:
    """Return 200 utterances, 20 of them with a wrong label, as the module says."""
    rng = random.Random(seed)
    chosen = rng.sample(list(utterances), min(NUM_LABELS, len(utterances)))
    syllables = sorted({token for utterance in utterances for token in utterance.tokens})
    for index in range(NUM_REPLACED):
        tokens = list(chosen[index].tokens)
        place = rng.randrange(len(tokens))
        tokens[place] = rng.choice([other for other in syllables if other != tokens[place]])
        chosen[index] = relabelled(chosen[index], tokens)
    for index in range(NUM_REPLACED, NUM_REPLACED + NUM_DROPPED):
        tokens = list(chosen[index].tokens)
        place = rng.randrange(len(tokens) - 1)
        chosen[index] = relabelled(chosen[index], tokens[:place] + tokens[place + 2 :])
    first = NUM_REPLACED + NUM_DROPPED
    for index in range(first, first + NUM_SWAPPED, 2):
        one, other = chosen[index : index + 2]
        chosen[index] = relabelled(one, other.tokens)
        chosen[index + 1] = relabelled(other, one.tokens)
    return chosen


def relabelled(utterance: Utterance, tokens: Sequence[str]) -> Utterance:
    """Return an utterance with another label and without a text, which would contradict it."""
    return dataclasses.replace(utterance, tokens=tuple(tokens), text="")


if __name__ == "__main__":
    main()
