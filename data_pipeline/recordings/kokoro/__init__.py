"""Speech by Kokoro, a network that reads text in many voices."""
