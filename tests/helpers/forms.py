"""Write forms with a recording, as browsers and OpenAI's clients send them."""


def form(data, **fields):
    """Return the type and the bytes of a form with a file, after fields of text."""
    parts = [b'name="%s"\r\n\r\n%s' % (name.encode(), value.encode()) for name, value in fields.items()]
    parts.append(b'name="file"; filename="a.wav"\r\n\r\n' + data)
    body = b"".join(b"--x\r\nContent-Disposition: form-data; " + part + b"\r\n" for part in parts)
    return "multipart/form-data; boundary=x", body + b"--x--\r\n"
