from data_pipeline.inspection.syllable_table import compact, syllable_table


def cells_of(table):
    return {
        (initial, row.final): cell
        for row in table.rows
        for initial, cell in zip(table.initials, row.cells, strict=True)
    }


def test_counts_of_all_tones_are_by_initial_and_final():
    table = syllable_table({"zhong1": 2, "zhong4": 3, "an4": 1, "ju2": 7, "zhi1": 1})
    cells = cells_of(table)
    assert (cells["zh", "ong"].count, cells["none", "an"].count, cells["j", "ü"].count) == (5, 1, 7)
    assert cells["zh", "-i"].count == 1
    assert sum(cell.count for cell in cells.values()) == 14
    assert table.num_known == 4


def test_missing_syllables_of_mandarin_are_distinguished_from_impossible_ones():
    table = syllable_table({"zhong1": 2})
    cells = cells_of(table)
    assert (cells["b", "a"].kind, cells["b", "a"].shown) == ("missing", "0")
    assert (cells["f", "i"].kind, cells["f", "i"].shown) == ("impossible", "")
    assert "ba" in table.missing
    assert "zhong" not in table.missing
    assert sum(cell.kind == "missing" for cell in cells.values()) == len(table.missing)


def test_colours_deepen_with_the_logarithm_of_the_count():
    cells = cells_of(syllable_table({"ba1": 1, "bo1": 30, "bi1": 1000}))
    depths = [cells["b", final].depth for final in ("a", "o", "i")]
    assert 0.05 < depths[0] < 0.2 < depths[1] < 0.6 < depths[2] == 1.0


def test_counts_are_shown_in_four_characters():
    counts = (7, 999, 1000, 1249, 9949, 9951, 34_567, 999_499, 999_500, 12_345_678)
    shown = [compact(count) for count in counts]
    assert shown == ["7", "999", "1.0k", "1.2k", "9.9k", "10k", "35k", "999k", "1.0M", "12M"]
    assert max(map(len, shown)) <= 4
