import kaldifst
import pytest

from asr.export.runtimes.sherpa.transducer import Transducer


def labels(read, write=""):
    return [
        (ord(a) if a != "-" else 0, ord(b) if b != "-" else 0)
        for a, b in zip(read, write.ljust(len(read), "-"), strict=True)
    ]


@pytest.fixture
def letters(tmp_path):
    """Maps ab to x at a cost of 3, to y at one of 2, and any a or b to itself at one of 10."""
    transducer = Transducer()
    transducer.state()  # unused, so that the start is not the first state
    end = transducer.state(final=0.5)
    transducer.start = transducer.state()
    transducer.arc(transducer.start, transducer.chain(labels("b"), end), ord("a"), ord("x"), 3.0)
    transducer.arc(transducer.start, transducer.chain(labels("b"), end), ord("a"), ord("y"), 2.0)
    for letter in b"ba":
        transducer.arc(transducer.start, transducer.start, letter, letter, 10.0)
    transducer.arc(end, transducer.start)
    transducer.write(tmp_path / "letters.fst")
    return transducer, tmp_path / "letters.fst"


def test_file_is_read_by_kaldifst_as_it_was_built(letters):
    transducer, path = letters
    read = kaldifst.StdVectorFst.read(str(path))
    assert (read.num_states, read.start) == (transducer.num_states, transducer.start)
    assert sum(read.num_arcs(state) for state in range(read.num_states)) == transducer.num_arcs == 6
    assert read.final(1).value == 0.5
    assert read.is_ilabel_sorted


def test_normalizer_takes_the_path_of_the_smallest_cost(letters):
    normalize = kaldifst.TextNormalizer(str(letters[1]))
    assert normalize("ab") == "y"
    assert normalize("aab") == "ay"
    assert normalize("abaab") == "yay"
    assert normalize("aba") == ""  # it may not end there


def test_claimed_order_of_arcs_is_true(letters):
    # kaldifst trusts what the file claims; the same arcs compiled from text are checked by OpenFst itself
    read = kaldifst.StdVectorFst.read(str(letters[1]))
    compiled = kaldifst.compile(read.to_str(show_weight_one=True), acceptor=False)
    assert compiled.is_ilabel_sorted


def test_chains_to_one_state_share_their_ends():
    transducer = Transducer()
    end = transducer.state(final=0.0)
    first = transducer.chain(labels("abcd", "wxyz"), end)
    assert transducer.num_states == 5
    assert transducer.chain(labels("bcd", "xyz"), end) != first
    assert transducer.num_states == 5
    transducer.chain(labels("bcd", "xyy"), end)
    assert transducer.num_states == 8
