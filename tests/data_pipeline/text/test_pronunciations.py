from data_pipeline.text.pronunciations import pronunciations
from data_pipeline.text.segmented_text import SpokenWord


def test_a_word_that_is_always_read_otherwise_than_alone_has_that_reading_only():
    occurrences = {SpokenWord("苴", None): 0, SpokenWord("苴", ("cha2",)): 2}
    found = pronunciations(occurrences, {"苴": ("ju1",)})
    assert [(one.word, one.reading) for one in found if one.log_prob > -0.1] == [("苴", ("cha2",))]
