"""Read sentences aloud to the recording page: the microphone plays clips, and keys are pressed in pauses."""

import json
import zipfile
from pathlib import Path

import numpy as np

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio, write_wav
from asr.base.types import Utterance
from data_pipeline.corpora.public.mandarin_demo import ARCHIVE
from helpers.servers import LIMIT_S

PAUSE_S = 2.2  # before each clip, in which the page on a busy machine can press a key
QUIET_MS = 700  # longer than pauses within a clip, and than a busy machine stops listening

# keeps what the page asks of the microphone, and when it was last loud; `read` presses the space bar within
# the page, since a busy machine may take longer than a pause for a key of Playwright
LISTEN = """
  const media = navigator.mediaDevices;
  const original = media?.getUserMedia.bind(media);
  if (media) media.getUserMedia = async (wishes) => {
    window.wishes = wishes;
    window.stream = await original(wishes);
    const context = new AudioContext();
    const analyser = new AnalyserNode(context, { fftSize: 2048 });
    context.createMediaStreamSource(window.stream).connect(analyser);
    const samples = new Float32Array(2048);
    window.lastLoud = performance.now();
    window.wasLoud = false;
    setInterval(() => {
      analyser.getFloatTimeDomainData(samples);
      if (samples.some((sample) => Math.abs(sample) > 0.01)) {
        window.lastLoud = performance.now();
        window.wasLoud = true;
      }
    }, 20);
    return window.stream;
  };
  window.until = (condition) => new Promise((resolve) => {
    const look = () => (condition() ? resolve() : setTimeout(look, 20));
    look();
  });
  window.press = (key) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  window.turnOn = async () => {
    window.press(" ");
    await window.until(() => window.stream && !document.getElementById("record").disabled);
  };
  window.read = async (count, fromFirst) => {
    const quietMs = () => performance.now() - window.lastLoud;
    // a busy machine may miss the pause before the first clip; when they begin again, it is twice as long
    const longMs = () => (fromFirst && window.wasLoud ? PAUSE_MS : 0) + QUIET_MS;
    await window.until(() => quietMs() > longMs() && quietMs() < longMs() + 300); // a pause begins
    for (let number = 0; number < count; number += 1) {
      window.press(" ");
      const pressed = performance.now();
      await window.until(() => window.lastLoud > pressed);
      await window.until(() => quietMs() > QUIET_MS);
      window.press(" ");
    }
  };
""".replace("QUIET_MS", str(QUIET_MS)).replace("PAUSE_MS", str(1000 * PAUSE_S))


def pick_demo_clips(folder, count):
    """Write the shortest clips of the demo corpus with different texts as WAV files, and return them."""
    folder.mkdir()
    with zipfile.ZipFile(ARCHIVE) as archive:
        records = [json.loads(line) for line in archive.read("manifest.jsonl").decode().splitlines()]
        by_text = {one["text"]: one for one in sorted(records, key=lambda one: -one["duration_s"])}
        clips = []
        for one in list(by_text.values())[-count:]:
            waveform = read_audio(Path(archive.extract(one["audio"], folder)))
            path = folder / f"{one['id']}.wav"
            write_wav(path, waveform)
            tokens, duration_s = tuple(one["pinyin"].split()), len(waveform) / SAMPLE_RATE_HZ
            clips.append(Utterance(one["id"], str(path), duration_s, one["text"], tokens, one["speaker"]))
    return clips


def write_microphone(path, clips):
    """Write what a microphone delivers while clips are read, each after a pause."""
    pause = np.zeros(round(PAUSE_S * SAMPLE_RATE_HZ), np.int16)
    parts = [part for clip in clips for part in (pause, read_audio(clip.audio_path))]
    write_wav(path, np.concatenate([*parts, pause]))


def wait_for(page, condition):
    """Wait until a condition holds in a page whose policy forbids what `wait_for_function` does."""
    page.evaluate(
        f"""new Promise((resolve, reject) => {{
            const look = () => (({condition}) ? resolve() : setTimeout(look, 20));
            setTimeout(() => reject(new Error(`never: ${{{condition!r}}}`)), {1000 * LIMIT_S});
            look();
        }})"""
    )


def wait_for_states(page, state, count):
    """Wait until the list of sentences shows a number of them in a state."""
    wait_for(page, f"document.querySelectorAll('#list .state[data-state={state}]').length === {count}")


def turn_on_microphone(page):
    """Turn on the microphone of the recording page by the keyboard."""
    page.keyboard.press("Space")
    wait_for(page, "window.stream && !document.getElementById('record').disabled")


def read_sentences(page, count=1, *, turn_on=False):
    """Record sentences one after the other, each from the pause before it to that after it.

    Args:
        page: to read to.
        count: of sentences.
        turn_on: whether to turn on the microphone and to begin with its first clip.
    """
    begin, from_first = ("await turnOn();", "true") if turn_on else ("", "false")
    page.evaluate(f"(async () => {{ {begin} await read({count}, {from_first}); }})()")


def record_silence(page):
    """Record a take of a microphone that is muted from before the take begins until it has come back."""
    page.evaluate("window.stream.getAudioTracks()[0].enabled = false")
    wait_for(page, f"performance.now() - window.lastLoud > {QUIET_MS}")
    page.keyboard.press("Space")
    wait_for(page, "document.getElementById('clock').textContent !== '0:00'")
    page.keyboard.press("Space")
    page.wait_for_selector("#list .state[data-state=again]", state="attached")
    page.evaluate("window.stream.getAudioTracks()[0].enabled = true")


def problem_of(page, *, language="en"):
    """Return what the page says in a language."""
    page.wait_for_selector("#problem", state="visible")
    if page.get_attribute("html", "lang")[:2] != language:
        page.click("#language")
    return page.inner_text("#problem")


def show_again(page):
    """Show the sentence that is to be read again; the page does so by itself if the answer comes soon."""
    page.wait_for_selector("#list .state[data-state=again]", state="attached")
    if page.locator("#verdict").is_hidden():
        page.keyboard.press("ArrowLeft")
    page.wait_for_selector("#verdict", state="visible")


def likeness(take, clip):
    """Return the highest correlation of a take with a clip, over all shifts: 1 if the clip is in it."""
    a, b = (samples.astype(np.float64) for samples in (take, clip))
    size = len(a) + len(b)
    products = np.fft.irfft(np.fft.rfft(a, size) * np.conj(np.fft.rfft(b, size)), size)
    return float(products.max() / np.sqrt((a**2).sum() * (b**2).sum()))
