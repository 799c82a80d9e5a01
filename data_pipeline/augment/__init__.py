"""Changes to waveforms in training."""
