"""Cut clips into chunks by ONNX nodes; a chunk becomes a row. See `asr.model.networks.conformers.chunks`."""

from __future__ import annotations

from asr.model.onnx.graph import Graph, Value


def in_chunks(graph: Graph, frames: Value, channels: int, size: int, before: int = 0) -> Value:
    """Cut frames into chunks, each preceded by the last frames before it.

    Args:
        graph: to add the nodes to.
        frames: (B, T, C).
        channels: C.
        size: frames of a chunk; zeros fill up the last one.
        before: frames before each chunk; zeros before the clip.

    Returns:
        (B * N, before + size, C).
    """
    num_frames = graph.size(frames, 1)
    filled = (num_frames + (size - 1)) // size * size  # N * size
    pads = graph.op("Concat", [0, before, 0, 0], filled - num_frames, [0], axis=0)
    padded = graph.op("Pad", frames, pads)
    pieces = []
    for begin in [*range(0, before, size), before]:
        piece = graph.op("Slice", padded, [begin], filled + begin, [1])
        rows = graph.op("Reshape", piece, [-1, size, channels])
        used = min(size, before - begin) if begin < before else size
        pieces.append(rows if used == size else graph.slice(rows, 1, 0, used))
    return graph.op("Concat", *pieces, axis=1) if len(pieces) > 1 else pieces[0]


def joined(graph: Graph, chunks: Value, channels: int, like: Value) -> Value:
    """Join chunks (B * N, size, C) to the frames of `like`, (B, T, C)."""
    shape = graph.op("Concat", graph.size(like, 0), [-1], [channels], axis=0)
    return graph.op("Slice", graph.op("Reshape", chunks, shape), [0], graph.size(like, 1), [1])
