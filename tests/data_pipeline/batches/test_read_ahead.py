import contextlib
import itertools
import threading
from concurrent.futures import CancelledError

import pytest
from helpers.object_storage import object_storage

from asr.audio.recording import piece_of_file
from asr.base.errors import UserError
from data_pipeline.batches import read_ahead
from data_pipeline.batches.read_ahead import GAP_BYTES, LARGEST_BYTES, FilePart, ReadAhead, near_each_other

NUM_RECORDINGS, SIZE = 40, 1000


@pytest.fixture(scope="module")
def pack():
    """Yield the address of a pack, in which each recording's bytes are its number."""
    with object_storage() as bucket:
        yield bucket.put(b"".join(bytes([number]) * SIZE for number in range(NUM_RECORDINGS)), "a.tar")


def paths_in(pack, numbers):
    return [piece_of_file(pack, number * SIZE, SIZE) for number in numbers]


@contextlib.contextmanager
def reading(*arguments, **options):
    ahead = ReadAhead(*arguments, **options)
    try:
        yield ahead
    finally:
        ahead.close()


def test_each_group_has_its_recordings_by_their_paths(pack):
    groups = [paths_in(pack, [5, 3, 30]), [], paths_in(pack, [3, 3]), paths_in(pack, range(NUM_RECORDINGS))]
    with reading(len(groups), groups.__getitem__) as ahead:
        for paths in groups:
            fetched = ahead.take(groups.index(paths))
            assert fetched.keys() == set(paths)
            for path, file in fetched.items():
                begin = int(path.rpartition("@")[2].partition("+")[0])
                assert file.read() == bytes([begin // SIZE]) * SIZE
                assert file.name == path


def test_no_more_is_fetched_ahead_than_there_is_room_for(pack):
    asked = []

    def paths_of(group):
        asked.append(group)
        return paths_in(pack, [group])

    with reading(NUM_RECORDINGS, paths_of, ahead_bytes=3 * SIZE) as ahead:
        for group in range(NUM_RECORDINGS):
            ahead.take(group)
            assert len(asked) <= group + 1 + 3
        assert asked == list(range(NUM_RECORDINGS))


def test_requests_of_several_groups_are_under_way_at_once(pack, monkeypatch):
    together = threading.Barrier(2)
    read = read_ahead._read

    def read_together(pieces):
        together.wait(timeout=60)  # breaks unless two threads read at once
        return read(pieces)

    monkeypatch.setattr(read_ahead, "_read", read_together)
    with reading(4, lambda group: paths_in(pack, [group]), ahead_bytes=3 * SIZE) as ahead:
        assert [len(ahead.take(group)) for group in range(4)] == [1, 1, 1, 1]


def test_what_the_first_group_of_a_block_needs_is_asked_for_first(pack, monkeypatch):
    asked = []
    read = read_ahead._read
    monkeypatch.setattr(read_ahead, "_read", lambda pieces: asked.append(pieces[0].path) or read(pieces))
    monkeypatch.setattr(read_ahead, "GAP_BYTES", 0)
    monkeypatch.setattr(read_ahead, "NUM_THREADS", 1)
    groups = [paths_in(pack, numbers) for numbers in ([30, 8], [5], [20], [30])]
    with reading(len(groups), groups.__getitem__) as ahead:
        ahead.take(2)
    assert asked == paths_in(pack, [8, 30, 5, 20])


def test_the_first_group_does_not_wait_until_all_that_there_is_room_for_is_planned(pack, monkeypatch):
    planned = []
    monkeypatch.setattr(read_ahead, "FIRST_BYTES", SIZE)
    with reading(NUM_RECORDINGS, lambda group: planned.append(group) or paths_in(pack, [group])) as ahead:
        ahead.take(0)
        assert planned == [*range(1 + 4 + 16)]


def test_recordings_of_several_groups_come_in_one_request(pack, monkeypatch):
    sizes = []
    read = read_ahead._read
    monkeypatch.setattr(read_ahead, "_read", lambda pieces: sizes.append(len(pieces)) or read(pieces))
    with reading(NUM_RECORDINGS, lambda group: paths_in(pack, [group]), ahead_bytes=40 * SIZE) as ahead:
        for group in range(NUM_RECORDINGS):
            assert list(ahead.take(group)) == paths_in(pack, [group])
    assert sum(sizes) == NUM_RECORDINGS
    assert len(sizes) == 4  # a quarter of what may be ahead


def test_the_first_groups_are_not_waited_for_together_with_all_others(pack, monkeypatch):
    asked = []
    monkeypatch.setattr(read_ahead, "FIRST_BYTES", 2 * SIZE)
    monkeypatch.setattr(read_ahead, "_read", lambda pieces: asked.append(len(pieces)) or {})
    ahead = ReadAhead(NUM_RECORDINGS, lambda group: paths_in(pack, [group]), ahead_bytes=100 * SIZE)
    for group in range(3):
        with pytest.raises(KeyError):
            ahead.take(group)
    ahead._pool.shutdown()
    assert sorted(asked) == [2, 5, 8, 25]  # four times as many each time, up to a quarter of the room
    ahead.close()


def test_threads_may_take_groups_in_another_order(pack):
    with reading(4, lambda group: paths_in(pack, [group])) as ahead:
        assert [list(ahead.take(group)) for group in (1, 0, 3, 2)] == [
            paths_in(pack, [group]) for group in (1, 0, 3, 2)
        ]


def test_the_error_of_a_recording_is_that_of_its_group_alone(pack):
    groups = [paths_in(pack, [0]), [f"{pack}-none.tar@0+10"], paths_in(pack, [1])]
    with reading(3, groups.__getitem__) as ahead:
        assert ahead.take(0)
        with pytest.raises(UserError, match=r"a.tar-none.tar: nothing is there"):
            ahead.take(1)
        assert ahead.take(2)


def test_nothing_is_fetched_after_the_end(pack):
    ahead = ReadAhead(4, lambda group: paths_in(pack, [group]))
    ahead.take(0)
    ahead.close()
    with pytest.raises(CancelledError):
        ahead.take(3)


def test_pieces_near_each_other_come_in_one_request_of_bounded_size():
    def piece(begin, size, file="a"):
        return FilePart("", file, begin, begin + size)

    far, near = GAP_BYTES + 1, GAP_BYTES
    pieces = [piece(0, 10), piece(10 + near, 10), piece(20 + near + far, 10), piece(0, 10, "b")]
    assert [len(group) for group in near_each_other(reversed(pieces))] == [2, 1, 1]
    adjacent = [piece(begin, GAP_BYTES) for begin in range(0, 3 * LARGEST_BYTES, GAP_BYTES)]
    sizes = [group[-1].end - group[0].begin for group in near_each_other(adjacent)]
    assert sizes == [LARGEST_BYTES] * 3
    whole = [FilePart.of("s3://b/a.wav"), FilePart.of("s3://b/b.wav")]
    assert list(near_each_other(whole)) == [[one] for one in whole]
    overlapping = [piece(0, 100), piece(10, 10), piece(90, 30)]
    assert list(itertools.chain(*near_each_other(overlapping))) == overlapping
