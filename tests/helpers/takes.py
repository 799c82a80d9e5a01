"""Takes of sentences, with real speech of the demo corpus where a test reads it back."""

import contextlib
import http.client
import io
import json
import re
import subprocess
import sys
from urllib.parse import urlsplit

import numpy as np
import soundfile

from data_pipeline.collection.collection import SpeechCollection
from data_pipeline.collection.prompts import Prompt
from data_pipeline.collection.takes import open_takes

LIMIT_S = 120  # far more than a busy machine needs
SENTENCES = ("今天天气很好。", "我想去银行取钱。", "他在图书馆看书。", "我们明天去爬山。", "请给我一杯水。")


def prompts_of(texts=SENTENCES):
    """Return prompts with ids p0, p1, ..., each hanzi a token."""
    return [Prompt(f"p{number}", text, tuple(text.strip("。"))) for number, text in enumerate(texts)]


def noise(seed=0, seconds=1.0, rate_hz=16_000):
    """Return (S,) samples that differ with the seed."""
    values = np.random.default_rng(seed).normal(0, 2000, round(seconds * rate_hz))
    return values.clip(-32768, 32767).astype(np.int16)


def wav_of(samples, rate_hz=16_000):
    """Return a WAV file of samples."""
    file = io.BytesIO()
    soundfile.write(file, samples, rate_hz, format="WAV", subtype="PCM_16")
    return file.getvalue()


@contextlib.contextmanager
def collection_in(folder, texts=SENTENCES, units="characters"):
    """Yield the takes of a folder and their collection."""
    with open_takes(folder, units) as takes:
        collection = SpeechCollection(takes, prompts_of(texts), 60.0, lambda splits: {"doctor": "asr doctor"})
        with contextlib.closing(collection):
            yield takes, collection


def ask(link, path, body=None, method=None):
    """Return the status and the answer of a request to `asr record` by a speaker's link."""
    address, _, key = link.partition("/#")
    # as browsers do it: the connection stays open, so that an answer before the body's end is not lost
    with contextlib.closing(http.client.HTTPConnection(urlsplit(address).netloc, timeout=LIMIT_S)) as client:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        client.request(method or ("GET" if body is None else "POST"), f"/record/{path}", body, headers)
        answer = client.getresponse()
        content = answer.read()
    return answer.status, json.loads(content) if b"fLaC" not in content[:4] else content


@contextlib.contextmanager
def recording_process(out, *arguments):
    """Yield the process of `asr record` and the links of its speakers by name, once it answers."""
    command = [sys.executable, "-m", "asr", "record", str(out), *map(str, arguments)]
    command += ["--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            links = {}
            for line in process.stdout:
                if found := re.fullmatch(r"  (.+?) +(https?://\S+)\n", line):
                    links[found[1]] = found[2]
                if line.startswith("Ctrl-C"):
                    break
            assert links, process.stderr.read()
            yield process, links
        finally:
            process.kill()
