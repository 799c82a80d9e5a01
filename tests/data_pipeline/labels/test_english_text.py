import pytest

from data_pipeline.labels.english_text import has_abbreviations, is_english
from data_pipeline.labels.from_text import label
from data_pipeline.labels.normalization import Normalizer, has_short_forms


@pytest.fixture(scope="module")
def normalizer():
    pytest.importorskip("wetext")
    return Normalizer()


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("I have 23 apples.", "i have twenty three apples"),
        (
            "He counted 1,234 of 12,345.",
            "he counted one thousand two hundred and thirty four of twelve thousand "
            "three hundred and forty five",
        ),
        ("It costs $1,000 or 5%", "it costs one thousand dollars or five percent"),
        ("In 2019, on May 3rd", "in twenty nineteen on may third"),
        ("the 1980s, the 1990's and the 60s", "the nineteen eighties the nineteen nineties and the sixties"),
        ("in the 2010s and the 1910s", "in the twenty tens and the nineteen tens"),
        (
            "5th St. He is 1,234th of ~30",
            "fifth street he is one thousand two hundred thirty fourth of approximately thirty",
        ),
        ("-1,234 people", "negative one thousand two hundred and thirty four people"),
        ("Dr. Smith and Mrs. Lee vs. Prof. Hill", "doctor smith and missus lee versus professor hill"),
        ("St. Louis, 5th St.", "saint louis fifth street"),
        ("the U.S. at 10 a.m.", "the u s at ten a m"),
        ("I AM HERE AT 9 PM", "i am here at nine p m"),
        ('he said "5"', "he said five"),
        ("25 km/h at -5°C", "twenty five kilometers per hour at negative five degrees celsius"),
    ],
)
def test_english_is_written_as_it_is_spoken(written, spoken, normalizer):
    assert has_short_forms(written)
    assert " ".join(label(normalizer(written), "words")) == spoken


@pytest.mark.parametrize(
    "text", ["*3 apples", "#1 song", "see [3]", "10€ a", "3² a", "№3 a", "figure 3\u200b."]
)
def test_text_that_the_rules_do_not_know_stays_as_it_is(text, normalizer):
    assert normalizer(text)


def test_text_without_numbers_and_abbreviations_needs_no_rules():
    assert not has_short_forms("I am here. It isn't late, Miss Lee")


@pytest.mark.parametrize("text", ["我有3个", "T恤3号", "123", "50%"])
def test_mandarin_and_bare_numbers_are_not_english(text, normalizer):
    assert not is_english(text)
    assert not has_abbreviations(text)
    assert normalizer("我有3个") == "我有三个"
