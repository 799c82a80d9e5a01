"""The protocols of OpenAI's, FunASR's, Vosk's and ASRT's clients."""
