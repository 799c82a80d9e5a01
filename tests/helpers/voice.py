"""Find words that have a plainer one, in code and pages.

python tests/helpers/voice.py [PATH ...]     # lists them

A line that must keep such a word, in text or as a part of a name, is listed in `ALLOWED`, with the reason.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SUFFIXES = {".py", ".md", ".html", ".css", ".js", ".toml", ".yaml", ".yml", ".cff"}
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
    ("asr/audio/recording.py", "stream.tell, stream.read", "a method of Python's files"),
    ("asr/audio/containers.py", "stream.tell()", "a method of Python's files"),
    ("asr/audio/joined.py", "def tell(self)", "a method of Python's files"),
    ("asr/audio/wav.py", "stream.tell()", "a method of Python's files"),
    ("asr/transcription/transcript_json.py", 'KEY = "heard"', "a key of files that were written before"),
    ("tests/asr/evaluation/test_scores.py", 'first["heard"]', "a key of files that were written before"),
    ("data_pipeline/download/archives.py", "raw.tell()", "a method of Python's files"),
    ("asr/base/download.py", "opened.tell()", "a method of Python's files"),
    ("asr/base/download.py", "part.tell()", "a method of Python's files"),
    ("tests/data_pipeline/download/test_archives.py", "fileobj.tell()", "a method of Python's files"),
]


@dataclass(frozen=True)
class Finding:
    """One place that is not plain English."""

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


def findings(under: list[str] | None = None) -> list[Finding]:
    """Return all that is not plain English in the project, or below the given paths."""
    return [finding for path in files(under) for finding in words(path)]


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
