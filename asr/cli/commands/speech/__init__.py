"""Commands that recognize speech."""
