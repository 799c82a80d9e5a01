"""Random damage to the bytes of a file, in place."""


def cut(data, rng):
    del data[rng.integers(len(data)) :]


def insert_garbage(data, rng):
    place = rng.integers(len(data))
    data[place:place] = rng.bytes(rng.integers(1, 3000))


def blank(data, rng):
    place = rng.integers(len(data))
    data[place : place + 2000] = bytes(len(data[place : place + 2000]))
