"""Write a model as a folder that sherpa-onnx loads, with hanzi by a finite-state transducer."""
