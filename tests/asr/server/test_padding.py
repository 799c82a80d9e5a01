"""Test that batches are padded to few lengths, and that the results stay the same."""

import numpy as np

from asr.audio.recording import pad_waveforms, read_audio
from asr.server.padding import LENGTH_STEP, PaddedRunner


class Recorded:
    """Stands for a runner that notes the shapes it is given."""

    num_devices = 1

    def __init__(self, runner):
        self.runner, self.shapes = runner, []

    def compiled(self, reduce):
        run = self.runner.compiled(reduce)
        return lambda audio, num_samples: self.shapes.append(audio.shape) or run(audio, num_samples)


def test_batches_have_few_lengths_and_the_results_of_unpadded_ones(recognizer, clips):
    noted = Recorded(recognizer.runner)
    run = PaddedRunner(noted).compiled(lambda logits: logits)
    for count in (1, 2, 3):
        audio, num_samples = pad_waveforms([read_audio(clip.audio_path) for clip in clips[:count]])
        found = run(audio, num_samples)
        expected = recognizer.runner.compiled(lambda logits: logits)(audio, num_samples)
        np.testing.assert_array_equal(found.num_frames, expected.num_frames)
        for one, other, length in zip(found.values, expected.values, expected.num_frames, strict=True):
            np.testing.assert_allclose(one[:length], other[:length], atol=1e-3)
    assert {shape[1] % LENGTH_STEP for shape in noted.shapes} == {0}
