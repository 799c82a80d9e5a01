"""Measure how long the page of `asr record` takes between two sentences.

python -m benchmarks.speed.recording_page

Sentences of the demo corpus are played to the microphone of a real browser. From the key that stops a take,
the page takes its time to show the next sentence, which can be recorded at once; meanwhile the server judges
the take and stores it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))  # for the reader

from helpers.browser import chromium
from helpers.reading import LISTEN, pick_demo_clips, read_sentences, wait_for_states, write_microphone
from helpers.recording_server import record_process

from benchmarks.common import show

NUM_TAKES = 20

# times in ms from the key that ends a take, once what changed is on the screen
WATCH = """
  window.nextMs = [];
  window.storedMs = [];
  let stopped = 0;
  addEventListener("keydown", ({ key }) => {
    if (key === " " && document.body.classList.contains("recording")) stopped = performance.now();
  }, true);
  const shown = () => setTimeout(() => window.nextMs.push(performance.now() - stopped));
  document.addEventListener("DOMContentLoaded", () => {
    new MutationObserver(() => stopped && requestAnimationFrame(shown)).observe(
      document.getElementById("sentence"), { childList: true });
    new MutationObserver((changes) => {
      const isStored = changes.some(({ target }) => target.dataset.state === "kept");
      if (isStored) window.storedMs.push(performance.now() - stopped);
    }).observe(document.getElementById("list"), { subtree: true, attributeFilter: ["data-state"] });
  });
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clips = pick_demo_clips(folder / "clips", NUM_TAKES + 1)
        prompts, sound = folder / "sentences.txt", folder / "read.wav"
        prompts.write_text("".join(f"{clip.text}\n" for clip in clips), encoding="utf-8")
        write_microphone(sound, clips)
        next_ms, stored_ms = times_ms(folder / "mine", prompts, sound)
    rows = {"the next sentence is shown": percentiles(next_ms), "the take is on disk": percentiles(stored_ms)}
    show(f"asr record: from the stop of a take, {len(next_ms)} takes", rows)


def times_ms(out: Path, prompts: Path, sound: Path) -> tuple[list[float], list[float]]:
    """Read sentences to the page; return when the next one was shown and when the take was stored, in ms."""
    options = ["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]
    options.append(f"--use-file-for-fake-audio-capture={sound}")
    with chromium(*options) as browser, record_process(out, "--prompts", prompts) as address:
        page = browser.new_page()
        page.add_init_script(LISTEN)
        page.add_init_script(WATCH)
        page.set_default_timeout(120_000)
        page.goto(address)
        page.wait_for_selector("body[data-ready]", state="attached")
        read_sentences(page, NUM_TAKES, turn_on=True)
        wait_for_states(page, "kept", NUM_TAKES)
        return page.evaluate("[nextMs, storedMs]")


def percentiles(times: list[float]) -> str:
    """Return the median, the 95th percentile and the maximum."""
    median, high, most = np.percentile(times, [50, 95, 100])
    return f"median {median:.0f} ms, p95 {high:.0f} ms, at most {most:.0f} ms"


if __name__ == "__main__":
    main()
