"""Export a run as a folder for another runtime, and compare its outputs with the original's.

from asr.export import export

exported = export("runs/demo", "demo-onnx", format="onnx")
print(exported.parity.max_logit_difference)
"""

from __future__ import annotations

from asr.export.exporting import Exported, ParityError, export
from asr.export.format import Card

__all__ = ["Card", "Exported", "ParityError", "export"]
