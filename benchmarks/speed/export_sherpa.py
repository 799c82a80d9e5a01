"""Measure exports for sherpa-onnx on test sets: `python -m benchmarks.speed.export_sherpa RUN...`.

sherpa-onnx runs each clip by itself, and as a stream where the model can. Its syllables are compared with
those of the trained model, greedy, and its hanzi, by the transducer, with those that `asr transcribe --hanzi
general` writes of the same syllables. Then both write the hanzi of the true syllables of all sets of the
first run; this needs `pip install kaldifst`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import kaldifst

from asr.base.text.terminal_table import align_columns
from asr.base.types import EditCounts
from asr.evaluation.errors.metrics import count_edits
from asr.evaluation.written_text import characters_of
from asr.export import ParityError, export
from asr.export.parity import parity_rows
from asr.export.runtimes.sherpa.hanzi_fst import write_hanzi_fst
from asr.language.hanzi.converter import Converter
from asr.runs.run import Run
from data_pipeline.manifests.manifest import read_manifest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+")
    runs = parser.parse_args().runs
    for run in runs:
        for quantize in ("", "int8"):
            compare(run, quantize)
    compare_hanzi(Run.open(runs[0]))


def compare(run: Path, quantize: str) -> None:
    """Print how an export for sherpa-onnx compares with the trained model."""
    with tempfile.TemporaryDirectory() as temporary:
        try:
            made = export(run, Path(temporary) / "out", "sherpa", quantize=quantize)
        except ParityError as error:
            made = error
    result = "refused" if isinstance(made, ParityError) else "written"
    print(f"{run.name}, {quantize or 'float32'}, {made.parity.num_clips} clips: {result}", flush=True)
    for line in align_columns(parity_rows(made.parity), right_from=1):
        print(f"  {line}", flush=True)


def compare_hanzi(run: Run) -> None:
    """Print the size of the transducer, and which share of the characters of a run's texts each writes."""
    data = run.config().data
    utterances = [one for path in (data.train, data.dev, data.test) for one in read_manifest(Path(path))]
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "hanzi.fst"
        transducer = write_hanzi_fst(path, run.vocabulary().tokens[1:])
        size, normalize = path.stat().st_size, kaldifst.TextNormalizer(str(path))
    print(f"transducer: {size:,} bytes, {transducer.num_states:,} states, {transducer.num_arcs:,} arcs")
    converter = Converter.load()
    writers = {
        "transducer": lambda tokens: normalize(" " + " ".join(tokens)),
        "general model": lambda tokens: converter.convert(tokens).text,
    }
    for name, write in writers.items():
        began, edits = time.perf_counter(), EditCounts()
        for utterance in utterances:
            edits += count_edits(characters_of(utterance.text), characters_of(write(utterance.tokens)))
        seconds = time.perf_counter() - began
        print(
            f"{name}: {1 - edits.rate:.2%} of the characters of {len(utterances):,} sentences, "
            f"{1000 * seconds / len(utterances):.2f} ms for each"
        )


if __name__ == "__main__":
    main()
