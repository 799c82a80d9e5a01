"""`asr serve` answers the clients of ASRT and of OpenAI with a trained or an exported model."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, get_type_hints

from asr.base.errors import UserError
from asr.base.model_files.named import default_run, named_folder
from asr.cli.options.decoder import add_decoder_arguments, decoder_choice
from asr.cli.options.devices import add_device_arguments, chosen_devices
from asr.cli.options.run import RUN_HELP
from asr.cli.options.serving import (
    add_address_arguments,
    add_certificate_arguments,
    certificate_of,
    has_screen,
    log_as_json,
    require_packages,
    token_of,
)
from asr.cli.progress_bars import ProgressBars
from asr.server.requests.limits import Limits

if TYPE_CHECKING:
    from asr.server.certificate import Certificate
    from asr.server.protocols.asrt_grpc import AsrtGrpc
    from asr.server.service import RecognitionService
    from asr.transcription.recognizer import Recognizer

GRPC_PACKAGES = ("grpc",)
PORT = 20001  # of ASRT's server

LIMITS = {
    "max_body_mb": "largest body of a request, in MiB",
    "max_audio_s": "longest recording, in seconds",
    "max_queue": "requests in progress, waiting ones included",
    "max_pending_mb": "memory of their bodies and samples, in MiB",
    "max_connections": "requests and streams that are open",
    "request_timeout_s": "seconds to answer a request",
    "batch_s": "seconds of audio that the model recognizes at once",
    "drain_s": "seconds that requests in progress have to end when the server is stopped",
    "max_streams": "streams that are open",
    "stream_idle_s": "seconds without a message after which a stream is closed",
    "max_hot_words": "hot words of a client",
}


def add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "run",
        nargs="?",
        help=f"{RUN_HELP}, or a folder that `asr export` wrote as onnx, or its address in object storage",
    )
    add_address_arguments(parser, PORT)
    parser.add_argument(
        "--grpc-port", type=int, metavar="PORT", help="also answer ASRT's gRPC clients, who use 20002"
    )
    parser.add_argument("--name", help="name of the model for clients (default: that of the directory)")
    _add_security_arguments(parser)
    add_decoder_arguments(parser)
    add_device_arguments(parser)
    limits = parser.add_argument_group("limits", "a request beyond one is refused in its protocol's form")
    kinds = get_type_hints(Limits)
    for limit in dataclasses.fields(Limits):
        limits.add_argument(
            f"--{limit.name.replace('_', '-')}",
            type=kinds[limit.name],
            default=limit.default,
            metavar="N",
            help=f"{LIMITS[limit.name]} (default: {limit.default:g})",
        )


def _add_security_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("who may use it")
    group.add_argument("--token-file", type=Path, metavar="FILE", help="clients must send the token in it")
    group.add_argument("--insecure", action="store_true", help="let others use it without a token")
    group.add_argument(
        "--allow-origin",
        dest="origins",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="let pages of this site use it, such as https://example.org; may be repeated",
    )
    add_certificate_arguments(group)


def serve_command(arguments: argparse.Namespace) -> int:
    """Load a model, answer requests until a signal, and return the exit status."""
    require_packages("serve")
    if arguments.grpc_port is not None:
        require_packages("grpc", GRPC_PACKAGES)
    from asr.server.app import make_app
    from asr.server.page.examples import example_calls
    from asr.server.requests.gate import is_local
    from asr.server.service import RecognitionService
    from asr.server.serving import address_of, listen, refuse_bad_port, serve
    from data_pipeline.labels.from_text import label

    if arguments.grpc_port is not None:
        refuse_bad_port("grpc_port", arguments.grpc_port)  # before the model is loaded
    limits = Limits(**{limit.name: getattr(arguments, limit.name) for limit in dataclasses.fields(Limits)})
    token = token_of(arguments.token_file)
    if not (token or arguments.insecure or is_local(arguments.host)):
        raise UserError(
            f"`host={arguments.host}`: others could use the model; name a file with a token by `token_file`, "
            "or let everybody use it by `insecure`"
        )
    certificate = certificate_of(arguments)
    with contextlib.closing(listen(arguments.host, arguments.port)) as listening:
        recognizer, name = _recognizer(arguments)
        service = RecognitionService(recognizer, name, limits, label)
        service.warm_up()
        address = address_of(listening, arguments.host, certificate)
        log_as_json()

        def show() -> None:
            print(f"{name} is served at {address}\n")
            for about, call in example_calls(address, name, bool(token)).items():
                print(f"# {about}\n{call}\n")
            if beside is not None:
                print(f"# gRPC, for ASRT's clients\n{arguments.host}:{beside.port}\n")
            print("Ctrl-C stops the server", flush=True)
            if not arguments.no_browser and has_screen():
                webbrowser.open(address)

        beside = _grpc(arguments, service, token, certificate)
        serve(make_app(service, token, arguments.origins), service, listening, certificate, show, beside)
    return 0


def _grpc(
    arguments: argparse.Namespace, service: RecognitionService, token: str, certificate: Certificate | None
) -> AsrtGrpc | None:
    if arguments.grpc_port is None:
        return None
    from asr.server.protocols.asrt_grpc import AsrtGrpc

    return AsrtGrpc(service, arguments.host, arguments.grpc_port, token, certificate)


def _recognizer(arguments: argparse.Namespace) -> tuple[Recognizer, str]:
    """Return the recognizer that the arguments ask for, and its name."""
    from asr.export.runtimes.onnx.recognizer import ExportedModel
    from asr.runs.run import Run

    named = arguments.run or default_run()
    # of an address, the copy in the cache; a folder of this name comes before the model of the installation
    folder = Path(named) if ExportedModel.is_in(Path(named)) else named_folder(named)
    is_exported = ExportedModel.is_in(folder) and not Run(folder).exists
    model = ExportedModel.open(folder) if is_exported else Run.open(named)
    choice = decoder_choice(arguments, model)
    name = arguments.name or model.directory.resolve().name
    with ProgressBars() as bars:
        if isinstance(model, ExportedModel):
            return model.recognizer(choice, bars), name
        from asr.transcription.recognizer import Recognizer

        return Recognizer.of_run(model, choice, chosen_devices(arguments), bars), name
