"""Shows whole programs that run on any machine: `python -m multigpu.examples.inception_v3`."""
