"""Changes waveforms in training: speed, reverberation, noise and gain.

SpecAugment masks features, on the device: see `asr.model.features.spec_augment`.
"""
