"""The runtimes that exported models run in."""
