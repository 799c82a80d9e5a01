"""Find what is not plain English in code and pages: `python tests/helpers/voice.py [PATH ...]` lists it.

Two rules, of which the first holds everywhere and the second outside `tests`:

- None of the words in `WORDS` occurs, neither in text nor as a part of a name. Each has a plainer one.
- A docstring's first sentence has a verb and four words or more. A function's begins with the verb, in the
  imperative ("Return the learning rate of the next step."); a module's or a class's has one anywhere.

A line that must keep such a word is listed in `ALLOWED`, with the reason.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SUFFIXES = {".py", ".md", ".html", ".css", ".js", ".toml", ".yaml", ".yml", ".cff"}
DOCSTRINGS_IN = ("asr", "data_pipeline", "multigpu", "benchmarks", "docs", "train.py", "setup.py")
SMALLEST_SENTENCE = 4  # words
QUOTES_THEM = ("tests/helpers/voice.py", "tests/test_voice.py")

# a pattern (between word boundaries; an underscore is one) and what to write instead
WORDS = {
    r"hears?|heard|hearing": "recognize, transcribe; listen to, audible (of people)",
    r"tells?|told|telling": "report, say, show, return, log; distinguish (one from the other)",
    r"stands?(?! for)|stood|standing": "is, appears; remains",
    r"anew": "again",
    r"so many": "N, that many, the number of",
    r"by heart": "memorized",
    r"(?:go|goes|going|went|gone) on": "resume, continue",
    r"way on": "resume hint, remedy",
    r"heed(?:s|ed|ing)?": "respect, skip, use",
    r"worth nothing": "have diverged, cannot be used",
    r"(?:are|is) no (?:numbers?|files?|texts?|directory|directories|folders?)": "is not a number",
    r"whereupon|thereof|therein|wherein|hitherto|whence|hence": "a plain connective",
    r"nought|naught": "nothing, zero",
    r"afresh": "again",
    r"oneself": "yourself",
    r"lest": "so that ... not",
    r"bids?|bade|bidden": "asks",
}
_WORDS = re.compile("|".join(rf"(?<![A-Za-z])(?:{pattern})(?![A-Za-z])" for pattern in WORDS), re.IGNORECASE)

# a file, a part of the line, and why it stays
ALLOWED: list[tuple[str, str, str]] = [
    ("CHANGELOG.md", "The columns `heard_text`", "names that were replaced"),
    ("asr/audio/recording.py", "stream.tell, stream.read", "a method of Python's files"),
    ("asr/audio/containers.py", "stream.tell()", "a method of Python's files"),
    ("asr/audio/joined.py", "def tell(self)", "a method of Python's files"),
    ("asr/audio/wav.py", "stream.tell()", "a method of Python's files"),
    ("asr/base/hypothesis_json.py", 'KEY = "heard"', "a key of files that were written before"),
    (
        "tests/asr/recognition/test_journal.py",
        '"heard": dataclasses',
        "a key of files that were written before",
    ),
    ("tests/asr/evaluation/test_scores.py", 'first["heard"]', "a key of files that were written before"),
    ("data_pipeline/archives/entries.py", "def tell(self)", "a method of Python's files"),
    ("data_pipeline/archives/unpack.py", "raw.tell()", "a method of Python's files"),
    ("data_pipeline/download/fetch.py", "file.tell()", "a method of Python's files"),
    ("tests/data_pipeline/archives/test_unpack.py", "fileobj.tell()", "a method of Python's files"),
]

# base forms, one a line, that a docstring may use
VERBS = set(Path(__file__).with_name("verbs.txt").read_text("utf-8").split())
_FINITE = {
    "is",
    "are",
    "was",
    "were",
    "has",
    "have",
    "had",
    "does",
    "do",
    "can",
    "cannot",
    "must",
    "may",
    "will",
}
_FINITE |= {
    "should",
    "could",
    "would",
    "goes",
    "did",
    "became",
    "came",
    "kept",
    "took",
    "went",
    "wrote",
    "gave",
}


def third_person(verb: str) -> str:
    """Return the form of a verb that follows "it"."""
    if verb in ("have", "do", "go"):
        return {"have": "has", "do": "does", "go": "goes"}[verb]
    if re.search(r"(?:s|x|z|ch|sh)$", verb):
        return verb + ("zes" if verb.endswith("iz") else "es")
    return verb[:-1] + "ies" if re.search(r"[^aeiou]y$", verb) else verb + "s"


_THIRD_PERSONS = {third_person(verb) for verb in VERBS} | _FINITE
# of a plural ("Names that begin ..."): the verb's base form after a relative pronoun or a pronoun
_AFTER = {"that", "which", "who", "they", "we", "you", "to", "not", "never", "always", "also"}


@dataclass(frozen=True)
class Finding:
    """Holds one place that is not plain English."""

    path: str
    line: int
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what} ({self.remedy})"


def files(under: list[str] | None = None) -> list[Path]:
    """Return the files whose language is checked, those below the given paths alone if there are any."""
    tops = [ROOT / path for path in under or ["."]]
    found = {path for top in tops for path in ([top] if top.is_file() else top.rglob("*"))}
    hidden_or_built = re.compile(
        r"(?:^|/)(?:\.(?!ci/)[^/]*|build|site|[^/]*\.egg-info|__pycache__|runs|prepared)/"
    )
    names = {path: path.relative_to(ROOT).as_posix() for path in found if path.is_file()}
    checked = [
        path
        for path, name in names.items()
        if path.suffix in SUFFIXES and not hidden_or_built.search(name) and name not in QUOTES_THEM
    ]
    return sorted(checked)


def words(path: Path) -> Iterator[Finding]:
    """Yield each banned word of a file."""
    name = path.relative_to(ROOT).as_posix()
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if any(file == name and part in line for file, part, _ in ALLOWED):
            continue
        for match in _WORDS.finditer(line):
            remedy = next(plain for word, plain in WORDS.items() if re.fullmatch(word, match[0].lower()))
            yield Finding(name, number, f"{match[0]!r} in {line.strip()[:90]!r}", remedy)


def first_sentence(docstring: str) -> str:
    """Return the first sentence of a docstring, in one line."""
    paragraph = docstring.strip().split("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=[.!?])\s+(?=[A-Z`\"(])", paragraph)[0]


def has_verb(sentence: str, *, imperative: bool) -> bool:
    """Say whether a sentence has a verb that `VERBS` knows; an imperative one is its first word."""
    found = re.findall(r"[A-Za-z']+", re.sub(r"`[^`]*`", "X", sentence))
    if not found:
        return False
    lower = [word.lower() for word in found]
    if lower[0] in VERBS:
        return True
    if imperative:
        return False
    return any(
        word in _THIRD_PERSONS or (word in VERBS and i and lower[i - 1] in _AFTER)
        for i, word in enumerate(lower)
    )


def docstrings(path: Path) -> Iterator[Finding]:
    """Yield each docstring of a file whose first sentence has no verb or is too short."""
    name = path.relative_to(ROOT).as_posix()
    if path.suffix != ".py" or not name.startswith(DOCSTRINGS_IN):
        return
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, functions | ast.ClassDef | ast.Module):
            continue
        docstring = ast.get_docstring(node)
        if docstring is None or any(file == name and part in docstring for file, part, _ in ALLOWED):
            continue
        sentence = first_sentence(docstring)
        line = 1 if isinstance(node, ast.Module) else node.lineno
        if len(sentence.split()) < SMALLEST_SENTENCE:
            yield Finding(name, line, f"docstring {sentence!r}", f"under {SMALLEST_SENTENCE} words")
        elif not has_verb(sentence, imperative=isinstance(node, functions)):
            remedy = "begin with an imperative verb" if isinstance(node, functions) else "needs a verb"
            yield Finding(name, line, f"docstring {sentence[:90]!r}", remedy)


def findings(under: list[str] | None = None) -> list[Finding]:
    """Return all that is not plain English in the project, or below the given paths."""
    return [finding for path in files(under) for finding in (*words(path), *docstrings(path))]


def main() -> int:
    """Print the findings and how many each folder has; return 1 where there are any."""
    found = findings(sys.argv[1:])
    for finding in found:
        print(finding)
    for folder, number in sorted(Counter("/".join(f.path.split("/")[:2]) for f in found).items()):
        print(f"{number:5d}  {folder}")
    print(f"{len(found)} in all")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
