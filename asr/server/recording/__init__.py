"""The recording page of `asr record`: its requests, and what answers them."""
