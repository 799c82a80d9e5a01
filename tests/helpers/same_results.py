"""Write everything that a run recognizes into a file, to compare two versions of the code.

PYTHONPATH=tests python -m helpers.same_results runs/demo data/mandarin_demo/test.jsonl before.json
PYTHONPATH=tests python -m helpers.same_results runs/demo data/mandarin_demo/test.jsonl after.json
diff before.json after.json

It also trains two epochs of the demo. It uses commands and protocols only, which outlive names of classes.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import grpc
import numpy as np
import requests

from asr.audio.recording import SAMPLE_RATE_HZ, read_audio, write_wav
from data_pipeline.manifests.manifest import read_manifest
from helpers.servers import server_process
from helpers.speech_sockets import funasr, vosk

NUM_CLIPS = 8
HOT_WORDS = "北京\n天气\t3\n会议\t2\n"
DECODERS = {
    "default": (),
    "greedy": ("--beam", 1),
    "tokens": ("--tokens",),
    "digits": ("--itn",),
    "beam": ("--beam", 16, "--n-best", 3),
    "language model": ("--lm", "LM"),
    "hot words": ("--hot-words", "HOT"),
    "all": ("--lm", "LM", "--hot-words", "HOT", "--itn", "--n-best", 4),
}


def asr(*arguments):
    """Run a command and return what it prints."""
    command = [sys.executable, "-m", "asr", *map(str, arguments)]
    return printed(command)


def printed(command):
    """Return what a process prints."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def recordings(manifest, folder):
    """Return clips, one with silence around it, and a long recording with pauses."""
    clips = read_manifest(manifest)[:NUM_CLIPS]
    waveforms = [read_audio(clip.audio_path) for clip in clips]
    silence, pause = np.zeros(SAMPLE_RATE_HZ, np.int16), np.zeros(14_000, np.int16)
    paths = [folder / f"{number}.wav" for number in range(len(waveforms))]
    for path, waveform in zip(paths, waveforms, strict=True):
        write_wav(path, waveform)
    write_wav(folder / "padded.wav", np.concatenate([silence, waveforms[0], silence]))
    write_wav(folder / "long.wav", np.concatenate([part for one in waveforms for part in (one, pause)] * 2))
    return clips, [*paths, folder / "padded.wav", folder / "long.wav"]


def trained(folder):
    """Return what two epochs of the demo print and write, without times."""
    runs = ("--set", f"train.runs_dir={folder}")
    printed([sys.executable, "train.py", "demo", "--set", "train.epochs=2", *runs])
    (metrics,) = folder.glob("*/metrics.jsonl")
    records = map(json.loads, metrics.read_text("utf-8").splitlines())
    return [
        {key: value for key, value in one.items() if "_s" not in key and "per" not in key} for one in records
    ]


def transcribed(run, paths, given):
    """Return transcripts by every decoder and in every format."""
    found = {}
    for name, options in DECODERS.items():
        chosen = [given.get(option, option) for option in options]
        found[name] = asr("transcribe", run, *paths, "--format", "jsonl", *chosen).splitlines()
    for suffix in ("text", "csv"):
        found[suffix] = asr("transcribe", run, *paths, "--format", suffix).splitlines()
    for suffix in ("srt", "vtt", "textgrid"):
        for options in ((), ("--tokens",), ("--itn",)):
            with tempfile.TemporaryDirectory() as folder:
                asr("transcribe", run, *paths, "--format", suffix, "--out", folder, *options)
                files = sorted(Path(folder).iterdir())
                found[f"{suffix} {options}"] = {
                    one.name: one.read_text("utf-8").splitlines() for one in files
                }
    return found


def aligned(run, clips, paths):
    """Return alignments in every format."""
    return {
        name: asr("align", run, paths[0], clips[0].text, "--format", name).splitlines()
        for name in ("table", "textgrid", "srt", "vtt", "json")
    }


def served(run, paths, options):
    """Return the answers of all protocols."""
    found = {}
    with server_process(run, "--grpc-port", 20_502, *options) as (_, address):
        for path in (paths[0], paths[1], *paths[-2:]):
            waveform = read_audio(path)
            found[path.name] = {
                "openai": {name: _openai(address, path, **form) for name, form in OPENAI_FORMS.items()},
                "page": _post(address, "/page/transcribe", path, {"hot_words": "北京 天气"}),
                "vosk": vosk(address, waveform),
                "vosk alternatives": vosk(address, waveform, max_alternatives=3, phrase_list=["北京"]),
                "funasr": {mode: funasr(address, waveform, mode) for mode in ("offline", "online", "2pass")},
                "funasr hot": funasr(address, waveform, "offline", hotwords='{"天气": 40}', itn=False),
                "asrt": {level: _asrt(address, level, waveform) for level in ("speech", "all")},
                "grpc": {method: _grpc(method, waveform) for method in ("Speech", "All")},
            }
    return found


OPENAI_FORMS = {
    name: {"response_format": name} for name in ("json", "text", "srt", "vtt", "verbose_json")
} | {
    "words": {
        "response_format": "verbose_json",
        "timestamp_granularities[]": ["word", "segment"],
    },
    "stream": {"stream": "true"},
}


def _openai(address, path, **form):
    return _post(address, "/v1/audio/transcriptions", path, form)


def _post(address, url, path, form):
    answer = requests.post(address + url, files={"file": path.read_bytes()}, data=form, timeout=120)
    assert answer.ok, answer.text
    return answer.content.decode().splitlines()


def _asrt(address, level, waveform):
    import base64

    samples = base64.urlsafe_b64encode(waveform.tobytes()).decode()
    fields = {"channels": 1, "sample_rate": SAMPLE_RATE_HZ, "byte_width": 2, "samples": samples}
    return requests.post(f"{address}/{level}", json=fields, timeout=120).json()


def _grpc(method, waveform):
    from asr.server.protocols.asrt_messages import SpeechRequest

    data = {"samples": waveform.tobytes(), "sample_rate": SAMPLE_RATE_HZ, "channels": 1, "byte_width": 2}
    with grpc.insecure_channel("127.0.0.1:20502") as channel:
        call = channel.unary_unary(f"/asrt.AsrtGrpcService/{method}")
        return call(SpeechRequest(wav_data=data).SerializeToString(), timeout=120).hex()


def exported(run, paths, folder):
    """Return what exported folders recognize, and the checksums of their models."""
    found = {}
    for name in ("onnx", "litert", "saved_model", "sherpa"):
        out = folder / name
        asr("export", run, out, "--format", name, "--clips", NUM_CLIPS)
        models = [path for path in out.rglob("*") if path.suffix in (".onnx", ".tflite", ".fst", ".npz")]
        found[name] = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(models)}
        script = out / "recognize.py"
        if script.exists():
            command = [sys.executable, script, *paths, "--format", "jsonl"]
            found[name]["transcripts"] = printed(command).splitlines()
    return found


def evaluated(run, manifest, folder):
    """Return the report of an evaluation with beam search."""
    import shutil

    copy = folder / "run"
    shutil.copytree(run, copy)
    asr("evaluate", copy, manifest, "--beam", 4, "--n-best", 2, "--name", "same")
    (path,) = copy.glob("*same*.json")
    return json.loads(path.read_text("utf-8"))


def results(run, manifest, folder):
    """Return everything."""
    clips, paths = recordings(manifest, folder)
    hot, model, text = folder / "hot.txt", folder / "lm", folder / "text.txt"
    hot.write_text(HOT_WORDS, "utf-8")
    text.write_text(
        "".join(f"{one.text}\n" for one in read_manifest(manifest.with_name("train.jsonl"))), "utf-8"
    )
    asr("lm", "train", text, "--out", model)
    given = {"LM": model, "HOT": hot}
    runs = folder / "runs"
    runs.mkdir()
    return {
        "trained": trained(runs),
        "transcribed": transcribed(run, paths, given),
        "aligned": aligned(run, clips, paths),
        "served": served(run, paths, ()),
        "served with digits": served(run, paths, ("--itn", "--lm", model)),
        "exported": exported(run, paths, folder),
        "evaluated": evaluated(run, manifest, folder),
    }


def main():
    """Write the results of a run as JSON, one value a line."""
    run, manifest, out = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        found = json.dumps(results(run, manifest, Path(name)), ensure_ascii=False, indent=0)
        # results name the files they are of
        out.write_text(found.replace(name, "FOLDER").replace(str(Path.cwd()), "CHECKOUT"), "utf-8")


if __name__ == "__main__":
    main()
