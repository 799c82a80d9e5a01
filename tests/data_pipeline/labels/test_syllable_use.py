import pytest

from asr.base.text.pinyin import mandarin_syllables
from data_pipeline.labels.syllable_use import coverage_of, syllable_use


def test_use_is_of_mandarins_syllables_and_sums_to_one():
    use = syllable_use()
    assert set(use) <= set(mandarin_syllables())
    assert sum(use.values()) == pytest.approx(1)
    assert next(iter(use)) == "de5"
    assert list(use.values()) == sorted(use.values(), reverse=True)


def test_coverage_weighs_syllables_by_their_use():
    use = syllable_use()
    first, second, *_ = use
    coverage = coverage_of({first, "no-syllable"})
    assert (coverage.num_covered, coverage.num_used) == (1, len(use))
    assert coverage.share == pytest.approx(use[first])
    assert next(iter(coverage.missing)) == second
    assert coverage_of(use).share == pytest.approx(1)
