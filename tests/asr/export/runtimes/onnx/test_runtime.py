"""Test that ONNX Runtime's results for a batch, which several cores compute, are those of its clips."""

import numpy as np
import onnx
import pytest
from helpers.exports import VOCABULARY, model_of

from asr.export.runtimes.onnx.runtime import FILE, OnnxRuntime
from asr.model.onnx.model import onnx_model
from asr.model.onnx_runner import CLIPS_AT_A_TIME


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    onnx.save(onnx_model(model_of('model.size="xs"'), len(VOCABULARY)), folder / FILE)
    runtime = OnnxRuntime(folder)
    (folder / FILE).unlink()  # as if the folder were replaced before the first batch
    return runtime


@pytest.mark.parametrize("num_clips", [1, 2, 2 * CLIPS_AT_A_TIME + 1])
def test_clips_of_a_batch_have_the_logits_that_they_have_alone(runtime, num_clips):
    rng = np.random.default_rng(3)
    lengths = [9_000, 300, 0, *rng.integers(400, 9_000, num_clips)][:num_clips]
    clips = [rng.normal(0, 2000, length).astype(np.int16) for length in lengths]
    outputs = runtime.run(clips)
    assert len(outputs) == num_clips
    for clip, together in zip(clips, outputs, strict=True):
        (alone,) = runtime.run([clip])
        assert together.logits.shape == alone.logits.shape
        np.testing.assert_allclose(together.logits, alone.logits, rtol=0, atol=1e-5)
    assert outputs[0].logits.std() > 0.1
