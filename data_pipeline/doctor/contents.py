"""The lines of manifests and the findings about them, millions of them: both are in arrays and text."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from asr.base.errors import UserError
from data_pipeline.doctor.findings import (
    KINDS,
    SEVERITIES,
    CheckedManifest,
    Finding,
    ManifestLine,
    Severity,
    about,
)
from data_pipeline.manifests.columns import Columns
from data_pipeline.manifests.lines import Lines
from data_pipeline.manifests.manifest import scan_manifest
from data_pipeline.manifests.rows import ComparedByItems
from data_pipeline.manifests.utterances import Utterances

CODES = tuple(KINDS)
LEFT_OUT = np.array([KINDS[code].left_out for code in CODES])
SEVERITY_OF = np.array([SEVERITIES.index(KINDS[code].severity) for code in CODES])


class Entries(ComparedByItems[ManifestLine]):
    """The readable lines of manifests, one of which is made each time it is asked for.

    Args:
        sources: the manifests.
        utterances: of all manifests, in their order, (N,).
        numbers: of the utterances' lines, (N,).
        begins: the index of the first utterance of each manifest, and N at the end.
    """

    def __init__(
        self,
        sources: Sequence[CheckedManifest],
        utterances: Utterances,
        numbers: npt.NDArray[np.int64],
        begins: Sequence[int],
    ) -> None:
        self.sources, self.utterances, self._numbers, self._begins = sources, utterances, numbers, begins
        self._source_numbers = {source: number for number, source in enumerate(sources)}

    @property
    def columns(self) -> Columns:
        """Return what is in arrays of the utterances."""
        return self.utterances.columns

    @property
    def source_numbers(self) -> npt.NDArray[np.int32]:
        """Return which manifest each entry is of, (N,)."""
        return np.repeat(np.arange(len(self.sources), dtype=np.int32), np.diff(self._begins))

    def of_source(self, source: CheckedManifest) -> range:
        """Return the indices of a manifest's entries."""
        number = self._source_numbers[source]
        return range(self._begins[number], self._begins[number + 1])

    def columns_of(self, sources: Iterable[CheckedManifest]) -> Columns:
        """Return the columns of the utterances of some manifests."""
        return self.columns.take(np.concatenate([np.arange(0), *map(self.of_source, sources)]))

    def find(self, source: CheckedManifest | None, line: int) -> int | None:
        """Return the index of a manifest's line; None if it is not an entry."""
        if source is None or source not in self._source_numbers:
            return None
        own = self.of_source(source)
        index = own.start + int(self._numbers[own.start : own.stop].searchsorted(line))
        return index if index < own.stop and self._numbers[index] == line else None

    @override
    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> ManifestLine: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ManifestLine]: ...
    @override
    def __getitem__(self, index: int | slice) -> ManifestLine | Sequence[ManifestLine]:
        if isinstance(index, slice):
            return [self[one] for one in range(len(self))[index]]
        index = range(len(self))[index]
        source = self.sources[bisect_right(self._begins, index) - 1]
        return ManifestLine(source, int(self._numbers[index]), self.utterances[index])

    @override
    def __iter__(self) -> Iterator[ManifestLine]:
        for source in self.sources:
            own = self.of_source(source)
            numbers = map(int, self._numbers[own.start : own.stop])
            for line, utterance in zip(numbers, self.utterances[own.start : own.stop], strict=True):
                yield ManifestLine(source, line, utterance)


class AudioPaths(Sequence[str]):
    """The path of each entry's recording."""

    def __init__(self, utterances: Utterances) -> None:
        self._utterances = utterances

    @override
    def __len__(self) -> int:
        return len(self._utterances)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    @override
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [utterance.audio_path for utterance in self._utterances[index]]
        return self._utterances[index].audio_path

    @override
    def __iter__(self) -> Iterator[str]:
        return (utterance.audio_path for utterance in self._utterances)


@dataclass(frozen=True)
class Contents:
    """The content of manifests.

    Attributes:
        sources: the manifests, in the order given.
        entries: all readable lines of all manifests.
        findings: defects of the manifests themselves.
    """

    sources: Sequence[CheckedManifest]
    entries: Entries
    findings: Sequence[Finding]


def read_contents(sources: Sequence[CheckedManifest]) -> Contents:
    """Read manifests; broken lines become findings."""
    parts: list[Utterances] = []
    numbers, begins = array("q"), [0]
    findings: list[Finding] = []
    for source in sources:
        try:
            scan = scan_manifest(source.path)
            findings += [Finding("broken-line", reason, source, line) for line, reason in scan.broken.items()]
            if scan.has_byte_order_mark:
                findings.append(Finding("byte-order-mark", "EF BB BF", source))
            if not scan.numbers:
                findings.append(Finding("empty-manifest", f"{len(scan.broken)} broken lines", source))
            parts.append(scan.utterances)
            numbers.extend(scan.numbers)
        except UserError as error:
            findings.append(Finding("unreadable-manifest", str(error), source))
        begins.append(len(numbers))
    utterances = parts[0].followed_by(parts[1:]) if parts else Utterances([], np.arange(0), Columns.of([]))
    return Contents(sources, Entries(sources, utterances, np.frombuffer(numbers, np.int64), begins), findings)


class Findings(ComparedByItems[Finding]):
    """Findings, one of which is made each time it is asked for.

    Args:
        entries: that they are about.
        codes: of their kinds, as indices of CODES, (N,).
        source_numbers: of the manifests, -1 for none, (N,).
        numbers: of the lines, 0 for whole files, (N,).
        details: of at least these findings.
        indices: of their details, (N,).
    """

    def __init__(
        self,
        entries: Entries,
        codes: npt.NDArray[np.int8],
        source_numbers: npt.NDArray[np.int32],
        numbers: npt.NDArray[np.int64],
        details: Lines,
        indices: npt.NDArray[np.int64],
    ) -> None:
        self._entries, self._codes, self._source_numbers = entries, codes, source_numbers
        self._numbers, self._details, self._indices = numbers, details, indices

    def take(self, chosen: npt.NDArray[np.integer] | npt.NDArray[np.bool_] | slice) -> Findings:
        """Return some of the findings."""
        arrays = (self._codes[chosen], self._source_numbers[chosen], self._numbers[chosen])
        return Findings(self._entries, *arrays, self._details, self._indices[chosen])

    def in_order(self) -> Findings:
        """Return the findings in the order of KINDS, then of the manifests and lines."""
        return self.take(np.lexsort((self._numbers, self._source_numbers, self._codes)))

    def by_kind(self) -> dict[str, Findings]:
        """Return findings that are in order by the code of their kind, for kinds that were found."""
        begins = np.searchsorted(self._codes, np.arange(len(CODES) + 1))
        kinds = {code: self[begins[rank] : begins[rank + 1]] for rank, code in enumerate(CODES)}
        return {code: found for code, found in kinds.items() if found}

    def counts(self) -> dict[Severity, int]:
        """Return the number of findings of each severity."""
        counts = np.bincount(SEVERITY_OF[self._codes], minlength=len(SEVERITIES))
        return dict(zip(SEVERITIES, counts.tolist(), strict=True))

    def about(self, source: CheckedManifest) -> Findings:
        """Return the findings about a manifest and its lines."""
        return self.take(self._source_numbers == self._entries.sources.index(source))

    def places_left_out(self) -> Iterator[tuple[CheckedManifest, int]]:
        """Yield the manifest and the line of each finding for which clean manifests leave a line out."""
        chosen = np.flatnonzero(LEFT_OUT[self._codes] & (self._source_numbers >= 0))
        places = zip(self._source_numbers[chosen], self._numbers[chosen], strict=True)
        return ((self._entries.sources[number], int(line)) for number, line in places)

    def usable(self) -> npt.NDArray[np.bool_]:
        """Return which entries no finding leaves out, (number of entries,)."""
        usable = np.ones(len(self._entries), np.bool_)
        for source, line in self.places_left_out():
            if (index := self._entries.find(source, line)) is not None:
                usable[index] = False
        return usable

    @override
    def __len__(self) -> int:
        return len(self._codes)

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> Findings: ...
    @override
    def __getitem__(self, index: int | slice) -> Finding | Findings:
        if isinstance(index, slice):
            return self.take(index)
        index = range(len(self))[index]
        code, line, number = CODES[self._codes[index]], int(self._numbers[index]), self._source_numbers[index]
        detail = next(self._details.read([int(self._indices[index])])).decode(errors="surrogatepass")
        source = None if number < 0 else self._entries.sources[number]
        entry = self._entries.find(source, line)
        return (
            Finding(code, detail, source, line)
            if entry is None
            else about(self._entries[entry], code, detail)
        )

    @override
    def __iter__(self) -> Iterator[Finding]:
        return map(self.__getitem__, range(len(self)))

    @override
    def __repr__(self) -> str:
        return repr(list(self))


class GrowingFindings:
    """Findings to which others are added.

    Args:
        entries: that they are about.
    """

    def __init__(self, entries: Entries) -> None:
        self._entries, self._details = entries, Lines()
        self._codes, self._source_numbers, self._numbers = array("b"), array("i"), array("q")
        self._ranks = {code: rank for rank, code in enumerate(CODES)}
        self._sources: dict[CheckedManifest | None, int] = {
            source: n for n, source in enumerate(entries.sources)
        }

    def extend(self, findings: Iterable[Finding]) -> None:
        """Add findings; one about a line of the entries is about its utterance."""
        for finding in findings:
            self._codes.append(self._ranks[finding.code])
            self._source_numbers.append(self._sources.get(finding.source, -1))
            self._numbers.append(finding.line)
            self._details.append(finding.detail.encode(errors="surrogatepass"))

    def findings(self) -> Findings:
        """Return the findings added so far."""
        self._details.finish()
        size = len(self._codes)
        codes, source_numbers = np.array(self._codes, np.int8), np.array(self._source_numbers, np.int32)
        numbers = np.array(self._numbers, np.int64)
        return Findings(self._entries, codes, source_numbers, numbers, self._details, np.arange(size))
