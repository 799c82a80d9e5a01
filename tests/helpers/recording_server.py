"""Start servers of the recording page: in this process, or by the command."""

import contextlib
import re
import signal
import subprocess
import sys
import threading

from asr.server.recording.app import make_recording_app
from asr.server.recording.service import RecordingService
from asr.server.requests.limits import Limits
from asr.server.serving import Server, address_of, listen, uvicorn_config
from data_pipeline.collection.collection import SpeechCollection
from data_pipeline.collection.takes import open_takes
from helpers.servers import LIMIT_S

NEXT = {"doctor": "asr doctor mine/train.jsonl", "train": "python train.py --name mine"}


@contextlib.contextmanager
def recording_server(folder, prompts, *, speakers=None, port=0, check=None, goal_s=60.0):
    """Yield the address of a server in a thread of this process, which stores takes in a folder."""
    with open_takes(folder, "syllables") as takes, contextlib.closing(listen("127.0.0.1", port)) as listening:
        collection = SpeechCollection(takes, prompts, goal_s, lambda splits: NEXT)
        service = RecordingService(collection, speakers or {"": "anna"}, Limits())
        if check:
            collection.start_checks(check, service.on_checked)
        ready, app = threading.Event(), make_recording_app(service)
        server = Server(uvicorn_config(app, service.limits, None), service, ready.set)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        assert ready.wait(LIMIT_S)
        try:
            yield address_of(listening, "127.0.0.1", None)
        finally:
            server.should_exit = True
            thread.join(LIMIT_S)
            service.close()
            collection.close()


@contextlib.contextmanager
def record_process(*arguments):
    """Yield the link of `asr record`, once it answers, and end it by Ctrl-C."""
    command = [sys.executable, "-m", "asr", "record", *map(str, arguments), "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            lines = iter(process.stdout.readline, "")
            yield next(found[0] for line in lines if (found := re.search(r"http://\S+", line)))
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=LIMIT_S)
            assert process.returncode == 0
        finally:
            process.kill()
