"""Changes waveforms in training: speed, reverberation, noise and gain."""
