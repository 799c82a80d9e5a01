"""N-gram language models: trained, read, written and asked. No TensorFlow here."""
