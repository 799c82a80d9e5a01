"""Import weights that ASRT trained as a run directory.

from asr import import_asrt

imported = import_asrt("SpeechModel251bn.model.h5", "runs/asrt")
print(imported.network, imported.dropped)

ASRT is github.com/nl8590687/ASRT_SpeechRecognition; its layer tables and file formats are public, its text is
not used here.
"""

from __future__ import annotations

from asr.export.asrt.importing import ImportedAsrt, import_asrt

__all__ = ["ImportedAsrt", "import_asrt"]
