import math

import numpy as np
import pytest

from asr.language.hanzi.lattice import EPSILON, lattice_from_nbest

SYLLABLES = ["ni3", "hao3", "hao4", "ma3", "ma5", "ni2"]


def paths(lattice):
    """Return every path through a lattice, with its score."""
    found = []

    def walk(node, tokens, score):
        if node == lattice.num_nodes - 1:
            found.append((tokens, score))
        for edge in lattice.edges:
            if edge.start == node:
                walk(
                    edge.end,
                    tokens if edge.syllable == EPSILON else (*tokens, edge.syllable),
                    score + edge.score,
                )

    walk(0, (), 0.0)
    return sorted(found)


def random_list(seed, most=12):
    rng = np.random.default_rng(seed)
    lists = {tuple(rng.choice(SYLLABLES[:3], rng.integers(0, 5)).tolist()) for _ in range(most)}
    return [
        (tokens, float(score))
        for tokens, score in zip(sorted(lists), rng.normal(0, 3, len(lists)), strict=True)
    ]


@pytest.mark.parametrize("seed", range(30))
def test_the_paths_of_a_lattice_are_the_hypotheses_with_their_scores(seed):
    alternatives = random_list(seed)
    found = paths(lattice_from_nbest(alternatives))
    assert [tokens for tokens, _ in found] == [tokens for tokens, _ in sorted(alternatives)]
    np.testing.assert_allclose([s for _, s in found], [s for _, s in sorted(alternatives)])


def test_edges_lead_from_lower_to_higher_nodes_and_are_sorted():
    lattice = lattice_from_nbest(random_list(7))
    assert all(edge.start < edge.end for edge in lattice.edges)
    assert list(lattice.edges) == sorted(lattice.edges)


def test_common_beginnings_and_endings_of_hypotheses_are_shared():
    sentence = ["ni3", "hao3"] * 10
    one, other = list(sentence), list(sentence)
    one[9], other[9] = "hao4", "hao"
    lattice = lattice_from_nbest([(tuple(s), -1.0) for s in (sentence, one, other)])
    assert len(lattice.edges) == 20 + 2


def test_a_hypothesis_that_appears_twice_has_the_better_score():
    assert paths(lattice_from_nbest([(("ni3",), -2.0), (("ni3",), -1.0)])) == [(("ni3",), -1.0)]


@pytest.mark.parametrize("soft", [None, 1.5])
def test_converting_a_lattice_equals_converting_its_best_hypothesis(small, soft):
    for seed in range(12):
        model = small.random_model(seed, 3)
        converter = small.exact(model, soft)
        alternatives = random_list(seed)
        best = max(
            (small.brute_force(model, tokens, soft or math.inf)[0] + score, tokens)
            for tokens, score in alternatives
        )
        conversion = converter.convert_lattice(lattice_from_nbest(alternatives))
        assert conversion.score == pytest.approx(best[0], abs=1e-4)
        assert conversion.syllables == best[1]
        assert conversion.text == small.brute_force(model, best[1], soft or math.inf)[1]


def test_an_empty_hypothesis_can_win(small):
    converter = small.exact(small.random_model(0, 2))
    conversion = converter.convert_lattice(lattice_from_nbest([((), 0.0), (("ni3",), -50.0)]))
    assert (conversion.text, conversion.words) == ("", ())
    assert conversion == converter.convert([])
