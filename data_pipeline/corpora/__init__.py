"""A module reads one corpus: a directory as downloaded -> recordings in train, dev and test."""

from __future__ import annotations

from asr.base.errors import UserError
from asr.base.text.wording import did_you_mean
from data_pipeline.corpora.forms import asrt, folder, json_lines, kaldi, table, tar_shards
from data_pipeline.corpora.public import (
    aidatatang_200zh,
    aishell1,
    common_voice,
    digits,
    hsk_words,
    librispeech,
    magicdata,
    mandarin_demo,
    primewords,
    st_cmds,
    thchs30,
)
from data_pipeline.types import Corpora, Corpus

CORPORA: Corpora = {
    "mandarin_demo": mandarin_demo.CORPUS,
    "hsk_words": hsk_words.CORPUS,
    "digits": digits.CORPUS,
    "thchs30": thchs30.CORPUS,
    "st_cmds": st_cmds.CORPUS,
    "aishell1": aishell1.CORPUS,
    "primewords": primewords.CORPUS,
    "aidatatang_200zh": aidatatang_200zh.CORPUS,
    "magicdata": magicdata.CORPUS,
    "common_voice": common_voice.CORPUS,
    "librispeech": librispeech.CORPUS,
}
# the user's own lists and folders, in the formats of other toolkits
FORMS: Corpora = {
    "table": table.CORPUS,
    "folder": folder.CORPUS,
    "json_lines": json_lines.CORPUS,
    "kaldi": kaldi.CORPUS,
    "tar_shards": tar_shards.CORPUS,
    "asrt": asrt.CORPUS,
}


def find_corpus(name: str) -> Corpus:
    """Return the corpus or form of this name.

    Raises:
        UserError: no corpus or form has this name.
    """
    known = {**CORPORA, **FORMS}
    if name not in known:
        raise UserError(
            f"unknown corpus {name!r}: expected one of {', '.join(known)}{did_you_mean(name, known)}"
        )
    return known[name]
