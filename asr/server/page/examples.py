"""Show how a server is called."""

from __future__ import annotations


def example_calls(address: str, model: str, needs_token: bool) -> dict[str, str]:
    """Return three calls of a server, by a few words about each.

    Args:
        address: of the server, such as "http://127.0.0.1:20001".
        model: its name.
        needs_token: whether clients must send a token.
    """
    header = " -H 'Authorization: Bearer TOKEN'" if needs_token else ""
    url = f"{address}/v1/audio/transcriptions"
    key = "TOKEN" if needs_token else "none"
    return {
        "curl": f"curl{header} {url} -F file=@question.wav",
        "subtitles": f"curl{header} {url} -F file=@talk.mp3 -F response_format=srt",
        "Python, pip install openai": (
            f'openai.OpenAI(base_url="{address}/v1", api_key="{key}").audio.transcriptions.create('
            f'model="{model}", file=open("question.wav", "rb")).text'
        ),
    }
