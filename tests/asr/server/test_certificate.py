"""Test TLS by all protocols with a certificate that a client trusts, and what is said of broken ones."""

import asyncio
import json
import ssl
import urllib.request

import grpc
import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from helpers.servers import LIMIT_S, server_process
from websockets.asyncio.client import connect

from asr.audio.recording import read_audio
from asr.cli.main import main
from asr.server.protocols.asrt_grpc import SERVICES


@pytest.fixture(scope="module")
def authority():
    """Return what issues certificates that a client can trust."""
    return trustme.CA()


@pytest.fixture(scope="module")
def certificate(authority, tmp_path_factory):
    """Return the files of a certificate and of its key."""
    issued, folder = authority.issue_cert("127.0.0.1"), tmp_path_factory.mktemp("certificate")
    issued.private_key_pem.write_to_path(str(folder / "key.pem"))
    for part in issued.cert_chain_pems:
        part.write_to_path(str(folder / "cert.pem"), append=True)
    return folder / "cert.pem", folder / "key.pem"


def test_certificates_that_cannot_be_used_are_named(exported, certificate, authority, capsys, tmp_path):
    def error(cert, key):
        assert main(["serve", str(exported.folder), "--cert", str(cert), "--key", str(key)]) == 2
        return capsys.readouterr().err

    good_cert, good_key = certificate
    assert f"{tmp_path / 'none'}: cannot read this certificate" in error(tmp_path / "none", good_key)
    assert f"{tmp_path / 'none'}: cannot read this key" in error(good_cert, tmp_path / "none")
    assert "directory" in error(tmp_path, good_key)
    assert "expected a certificate with its key" in error(good_key, good_cert)
    (tmp_path / "text").write_text("no certificate")
    assert "expected a certificate with its key" in error(tmp_path / "text", good_key)
    authority.issue_cert("127.0.0.1").private_key_pem.write_to_path(str(tmp_path / "other"))
    assert f"{tmp_path / 'other'}: it is not the key of" in error(good_cert, tmp_path / "other")
    locked = load_pem_private_key(good_key.read_bytes(), None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    (tmp_path / "locked").write_bytes(locked)
    assert "without a passphrase" in error(good_cert, tmp_path / "locked")


async def close_code(address, trusting, samples):
    """Return the code by which a stream ends; the client in threads reads and writes a TLS socket at once."""
    async with connect(address, ssl=trusting, open_timeout=LIMIT_S) as client:
        await client.send(samples)
        await client.send('{"eof": 1}')
        async for _ in client:
            pass
    return client.close_code


def test_all_protocols_are_encrypted(exported, clips, authority, certificate):
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    cert, key = certificate
    options = ("--cert", cert, "--key", key, "--grpc-port", 0)
    with server_process(exported.folder, *options) as (process, address):
        assert address.startswith("https://127.0.0.1:")
        with urllib.request.urlopen(f"{address}/v1/models", context=trusting, timeout=LIMIT_S) as answer:
            assert json.loads(answer.read())["data"]
        samples = read_audio(clips[0].audio_path).tobytes()
        assert asyncio.run(close_code(f"{address.replace('http', 'ws', 1)}/vosk", trusting, samples)) == 1000
        lines = iter(process.stdout.readline, "")
        assert any("gRPC" in line for line in lines)
        credentials = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
        with grpc.secure_channel(next(lines).strip(), credentials) as channel:
            language = channel.unary_unary(f"/{SERVICES[0]}/Language")
            assert "你好".encode() in language(b"\x0a\x03ni3\x0a\x04hao3", timeout=LIMIT_S)
        for untrusted in (f"{address}/v1/models", f"{address.replace('https', 'http')}/v1/models"):
            with pytest.raises(OSError):  # noqa: PT011
                urllib.request.urlopen(untrusted, timeout=LIMIT_S)
        with urllib.request.urlopen(f"{address}/health/ready", context=trusting, timeout=LIMIT_S) as answer:
            assert answer.status == 200
