"""Route WebSockets: `/vosk` is Vosk's protocol; at `/` the first message shows if it is Vosk's or FunASR's.

Vosk's server has no path, and neither has FunASR's. FunASR's clients begin with their settings; those of Vosk
with an object that has nothing but `config`, or at once with samples.
"""

from __future__ import annotations

from starlette.routing import BaseRoute

from asr.server.protocols.funasr_socket import FIELDS, talk_funasr
from asr.server.protocols.sockets import ClientSocket, Message, json_object, socket_route
from asr.server.protocols.vosk_socket import talk_vosk
from asr.server.service import RecognitionService


def stream_routes(service: RecognitionService) -> list[BaseRoute]:
    """Return the routes of clients that send sound while it comes in."""

    async def vosk(client: ClientSocket) -> None:
        await talk_vosk(service, client, await client.receive())

    async def either(client: ClientSocket) -> None:
        first = await client.receive()
        talk = talk_funasr if _is_of_funasr(first) else talk_vosk
        await talk(service, client, first)

    return [socket_route("/vosk", service, vosk, "vosk"), socket_route("/", service, either, "binary")]


def _is_of_funasr(first: Message) -> bool:
    if isinstance(first, bytes):
        return False
    fields = json_object(first)
    return "config" not in fields and not FIELDS.isdisjoint(fields)
