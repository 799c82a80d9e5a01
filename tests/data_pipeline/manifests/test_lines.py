import concurrent.futures
import random

import pytest

from data_pipeline.manifests.lines import Lines

LINES = [f"line {number} ".encode() * (number % 40) for number in range(3000)]


@pytest.fixture(params=[1 << 30, 100_000, 0])
def lines(request):
    """Return the lines all as they are, some compressed, and all compressed."""
    lines = Lines(plain_bytes=request.param)
    for line in LINES:
        lines.append(line)
    lines.finish()
    return lines


def test_lines_are_read_in_any_order(lines):
    order = list(range(len(LINES)))
    assert len(lines) == len(LINES)
    assert list(lines.read(order)) == LINES
    random.Random(1).shuffle(order)
    assert list(lines.read(order)) == [LINES[index] for index in order]


def test_threads_read_the_same_lines(lines):
    def read(seed):
        order = random.Random(seed).choices(range(len(LINES)), k=2000)
        return all(list(lines.read([index])) == [LINES[index]] for index in order)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(16)))
