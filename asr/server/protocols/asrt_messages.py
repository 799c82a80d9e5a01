"""Define the messages of ASRT's gRPC interface; its clients use the same numbers of fields.

`SpeechRequest(wav_data=WavData(samples=..., sample_rate=16000, channels=1, byte_width=2))`
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "asrt"
TYPES = {
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
}
# the fields of each message in the order of their numbers, which begin at 1
MESSAGES = {
    "WavData": {"samples": "bytes", "sample_rate": "int32", "channels": "int32", "byte_width": "int32"},
    "SpeechRequest": {"wav_data": "WavData"},
    "LanguageRequest": {"pinyins": "repeated string"},
    "SpeechResponse": {"status_code": "int32", "status_message": "string", "result_data": "repeated string"},
    "TextResponse": {"status_code": "int32", "status_message": "string", "text_result": "string"},
}


def _message_classes() -> dict[str, Any]:
    """Return the class of each message."""
    file = descriptor_pb2.FileDescriptorProto(name="asrt.proto", package=PACKAGE, syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field_name, kind) in enumerate(fields.items(), start=1):
            field = message.field.add(name=field_name, number=number)
            repeated, _, kind = kind.rpartition(" ")
            field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
            if kind in TYPES:
                field.type = TYPES[kind]
            else:
                field.type, field.type_name = field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in MESSAGES
    }


_CLASSES = _message_classes()
SpeechRequest: Any = _CLASSES["SpeechRequest"]
LanguageRequest: Any = _CLASSES["LanguageRequest"]
SpeechResponse: Any = _CLASSES["SpeechResponse"]
TextResponse: Any = _CLASSES["TextResponse"]
