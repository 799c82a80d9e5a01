"""Make malformed requests by every protocol from sound ones: cut, changed, repeated, or of other types.

The same seed makes the same requests.
"""

import base64
import json
import random
import struct

BOUNDARY = b"a-boundary"
JSON_VALUES = (
    None,
    True,
    -1,
    0,
    1e308,
    2**70,
    "",
    "x",
    "\x00",
    "李",
    [],
    {},
    [[]],
    [{}],
    {"a": []},
    "A" * 5000,
)
HTTP_PATHS = (
    "/v1/audio/transcriptions",
    "/speech",
    "/all",
    "/language",
    "/",
    "/page/transcribe",
    "/v1/models/%00",
)
GRPC_METHODS = ("Speech", "Language", "All", "Stream", "None")
SOCKET_PATHS = ("/", "/vosk")


def changed(data: bytes, chance: random.Random) -> bytes:
    """Return bytes with a few of them changed, cut off, repeated or left out."""
    data = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        place, size = chance.randrange(len(data) + 1), chance.choice([1, 2, 4, 16, 200])
        kind = chance.randrange(5)
        if kind == 0:
            data[place : place + size] = chance.randbytes(size)
        elif kind == 1:
            del data[place:]
        elif kind == 2:
            del data[place : place + size]
        elif kind == 3:
            data[place:place] = data[place : place + size] * chance.randint(1, 50)
        else:
            data[place : place + 4] = struct.pack("<I", chance.choice([0, 1, 2**31, 2**32 - 1]))
    return bytes(data)


def json_message(fields: dict[str, object], chance: random.Random) -> str:
    """Return JSON with some values of other types, with some left out, or broken."""
    fields = {
        name: chance.choice(JSON_VALUES) if chance.random() < 0.4 else value
        for name, value in fields.items()
        if chance.random() < 0.9
    }
    text = json.dumps(chance.choice([fields, fields, fields, [fields], [[]] * 500, "[" * 2000]))
    return text[: chance.randrange(len(text))] if chance.random() < 0.2 else text


def http_request(wav: bytes, chance: random.Random) -> bytes:
    """Return the bytes of a malformed request by HTTP, in OpenAI's form or in ASRT's."""
    if chance.random() < 0.5:
        fields = {
            "samples": base64.b64encode(wav[44:8044]).decode(),
            "sample_rate": 16_000,
            "channels": 1,
            "byte_width": 2,
            "sequence_pinyin": ["ni3", "hao3"],
        }
        kind, body = b"application/json", json_message(fields, chance).encode()
    else:
        kind, body = b"multipart/form-data; boundary=" + BOUNDARY, _form(wav, chance)
    path = chance.choice(HTTP_PATHS)
    size = chance.choice([len(body)] * 6 + [0, len(body) // 2])
    method = chance.choice(["POST"] * 8 + ["PUT", "GET"])
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", f"Content-Length: {size}"]
    head = "\r\n".join(lines).encode() + b"\r\nContent-Type: " + kind
    request = head + b"\r\n\r\n" + body
    return changed(request, chance) if chance.random() < 0.3 else request


def _form(wav: bytes, chance: random.Random) -> bytes:
    names = ["file", "model", "response_format", "stream", "timestamp_granularities[]", "hot_words", "file"]
    parts = []
    for name in chance.sample(names, chance.randint(0, len(names))):
        value = chance.choice([b"", b"true", b"verbose_json", b"\xff\xfe", b"word", chance.randbytes(50)])
        if name == "file":
            value = changed(wav, chance)
        file = b'; filename="a.wav"' if chance.random() < (0.9 if name == "file" else 0.1) else b""
        head = b'Content-Disposition: form-data; name="' + name.encode() + b'"' + file
        parts.append(b"--" + BOUNDARY + b"\r\n" + head + b"\r\n\r\n" + value + b"\r\n")
    body = b"".join(parts) + b"--" + BOUNDARY + b"--\r\n"
    return changed(body, chance) if chance.random() < 0.4 else body


def socket_messages(wav: bytes, chance: random.Random) -> list[str | bytes]:
    """Return messages by WebSocket, in Vosk's form or in FunASR's, in any order."""
    vosk = {"sample_rate": 16_000, "words": True, "phrase_list": ["李雷"], "max_alternatives": 1}
    funasr = {"mode": "2pass", "wav_name": "a", "audio_fs": 16_000, "hotwords": "李雷", "is_speaking": True}
    makers = (
        lambda: json.dumps({"config": json.loads(json.dumps(chance.choice([vosk, *JSON_VALUES])))}),
        lambda: json_message(vosk, chance),
        lambda: json_message(funasr, chance),
        lambda: chance.choice(['{"eof": 1}', '{"reset": 1}', '{"is_speaking": false}', "", "\x00"]),
        lambda: changed(wav, chance),
        lambda: wav[44 : 44 + chance.randrange(20_000)],
    )
    return [chance.choice(makers)() for _ in range(chance.randint(1, 6))]


def grpc_call(wav: bytes, chance: random.Random) -> tuple[str, bytes]:
    """Return a method of ASRT's service, which may not exist, and the bytes of a malformed message."""
    data = b"\x0a" + struct.pack("B", 100) + wav[44:144] + b"\x10\x80\x7d\x18\x01\x20\x02"
    message = b"\x0a" + bytes([len(data)]) + data
    return chance.choice(GRPC_METHODS), changed(message, chance)
