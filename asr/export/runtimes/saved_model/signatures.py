"""Define what a SavedModel does: audio in, text, tokens and logits out, without Python objects of ours."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from asr.audio.recording import INT16_SCALE, SAMPLE_RATE_HZ
from asr.base.types import Logits, Tensor
from asr.base.vocabulary import BLANK_ID, WORD_BOUNDARY, Vocabulary
from asr.export.serving_graph import logits_of, variables_of
from asr.model.acoustic_model import AcousticModel
from asr.model.features.layer import padding_mask

AUDIO = (
    tf.TensorSpec((None, None), tf.int16, name="audio"),
    tf.TensorSpec((None,), tf.int32, name="num_samples"),
)
WAV = (tf.TensorSpec((None,), tf.string, name="wav"),)


class ServedModel(tf.Module):
    """Greedy transcription of clips by operations of TensorFlow only.

    Args:
        model: the acoustic model.
        vocabulary: names its outputs.
    """

    def __init__(self, model: AcousticModel, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._model, self._vocabulary = Untracked(model), Untracked(vocabulary)
        self.weights = variables_of(model)

    def signatures(self) -> dict[str, Any]:
        """Return the functions by the names of their signatures."""
        return {"serving_default": self.transcribe, "wav": self.transcribe_wav, "logits": self.logits}

    @tf.function(input_signature=AUDIO)
    def transcribe(self, audio: Tensor, num_samples: Tensor) -> dict[str, Tensor]:
        """Return the text of clips, their tokens, and when each begins.

        Args:
            audio: (B, S) int16 at 16 kHz.
            num_samples: (B,) int32, at most S; samples after it are padding.

        Returns:
            `text`, (B,); `tokens`, (B, U), "" after the last; `times_s`, (B, U), 0 after the last;
            `num_tokens`, (B,).
        """
        return self._decoded(logits_of(self._model.value, audio, num_samples))

    @tf.function(input_signature=WAV)
    def transcribe_wav(self, wav: Tensor) -> dict[str, Tensor]:
        """Do the same for the bytes of WAV files, (B,), of 16 bits and 16 kHz; channels are averaged."""
        clips = tf.map_fn(_samples, wav, fn_output_signature=tf.RaggedTensorSpec((None,), tf.int16))
        num_samples = tf.cast(clips.row_lengths(), tf.int32)
        return self._decoded(logits_of(self._model.value, clips.to_tensor(), num_samples))

    @tf.function(input_signature=AUDIO)
    def logits(self, audio: Tensor, num_samples: Tensor) -> dict[str, Tensor]:
        """Return also `logits`, (B, T, V) float32, and `num_frames`, (B,), after which they are padding."""
        logits = logits_of(self._model.value, audio, num_samples)
        return self._decoded(logits) | {"logits": logits.values, "num_frames": logits.num_frames}

    def _decoded(self, logits: Logits) -> dict[str, Tensor]:
        """Merge repeats and remove blanks."""
        vocabulary, frame_s = self._vocabulary.value, self._model.value.frame_s
        ids = tf.argmax(logits.values, axis=-1, output_type=tf.int32)  # (B, T)
        ids *= padding_mask(logits.num_frames, tf.shape(ids)[1], "int32")
        before = tf.pad(ids, [[0, 0], [1, 0]], constant_values=BLANK_ID)[:, :-1]
        starts = (ids != BLANK_ID) & (ids != before)
        tokens = tf.ragged.boolean_mask(tf.gather(tf.constant(vocabulary.tokens), ids), starts)
        frames = tf.zeros_like(ids) + tf.range(tf.shape(ids)[1])
        times_s = tf.ragged.boolean_mask(tf.cast(frames, tf.float32) * frame_s, starts)
        return {
            "text": text_of(tokens, vocabulary),
            "tokens": tokens.to_tensor(),
            "times_s": times_s.to_tensor(),
            "num_tokens": tf.cast(tokens.row_lengths(), tf.int32),
        }


def text_of(tokens: Any, vocabulary: Vocabulary) -> Tensor:
    """Return ragged tokens (B, U) as text (B,)."""
    separator = " " if vocabulary.is_spaced else ""
    if vocabulary.unit == "mixed":  # spaces around syllables and spelt words, whose letters are in a row
        tokens = tf.ragged.map_flat_values(tf.strings.regex_replace, tokens, "^([a-z]+[1-5])$", r" \1 ")
        tokens = tf.ragged.map_flat_values(tf.strings.regex_replace, tokens, "^([A-Z])$", r"<\1>")
    text = tf.strings.reduce_join(tokens, axis=-1, separator=separator)
    if vocabulary.unit == "mixed":
        text = tf.strings.regex_replace(tf.strings.regex_replace(text, "><", ""), "[<>]", " ")
        text = tf.strings.regex_replace(text, f"[ {WORD_BOUNDARY}]+", " ")
    return tf.strings.strip(tf.strings.regex_replace(text, WORD_BOUNDARY, " "))


class Untracked:
    """An object that is not to be saved."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _samples(wav: Tensor) -> Tensor:
    """Return the samples (S,) of a WAV file as int16."""
    channels, rate_hz = tf.audio.decode_wav(wav)
    message = f"expected WAV files at {SAMPLE_RATE_HZ} Hz; resample them"
    tf.debugging.assert_equal(rate_hz, SAMPLE_RATE_HZ, message)
    return tf.cast(tf.round(tf.reduce_mean(channels, axis=1) * INT16_SCALE), tf.int16)
