"""Send malformed requests by all protocols to a server, and see whether it answers as before."""

from __future__ import annotations

import asyncio
import random

from helpers.malformed_traffic import failures, grpc_answers, http_answers, socket_answers

from benchmarks.common import show
from benchmarks.serving.honest import openai
from benchmarks.serving.models import Models
from benchmarks.serving.processes import asr_serve
from benchmarks.serving.recordings import clips_of, transcribed

NUM_HTTP, NUM_SOCKETS, NUM_GRPC = 1200, 400, 400


def measure_fuzz(models: Models) -> None:
    """Print how 2,000 malformed requests were answered."""
    waveforms = clips_of(models.manifest, 1, 2.0)
    (recording,) = transcribed(models.run, waveforms, models.folder / "fuzz")
    wav = recording.path.read_bytes()
    for name, model in models.served.items():
        with asr_serve(model, "--grpc-port", "0") as server:
            chance = random.Random(1)
            answers = http_answers(server.address, wav, chance, NUM_HTTP)
            answers += socket_answers(server.address, wav, chance, NUM_SOCKETS)
            answers += grpc_answers(server.grpc_address, wav, chance, NUM_GRPC)
            text = asyncio.run(openai(server, recording))
            log = server.log.read_text()
        rows = {
            "malformed requests": str(len(answers)),
            "answers that show a failure": str(len(failures(answers))),
            "failures in the server's log": str(log.count("Traceback")),
            "the next honest answer": "right" if text == recording.text else f"wrong: {text}",
        }
        show(f"malformed requests, {name}", rows)
