"""Write the log as JSON, one object a line; neither audio nor transcripts are in it."""

from __future__ import annotations

import json
import logging
import time

from typing_extensions import override


def without_traceback_of_bad_text(record: logging.LogRecord) -> bool:
    """Shorten to one warning what uvicorn logs as an error where a client's text is no UTF-8; a filter."""
    if record.exc_info and isinstance(record.exc_info[1], UnicodeDecodeError):
        record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
    return True


class JsonFormatter(logging.Formatter):
    """A formatter of records as JSON objects; `extra={"fields": {...}}` adds fields."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        written = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "time": f"{written}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)
