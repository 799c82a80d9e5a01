"""What each command does, a module a command. They compose the packages, as `train.py` does.

TensorFlow is imported when they run: `--help` answers at once.
"""

EXIT_MISTAKE = 2  # of the user's, told in a line each
EXIT_INTERRUPTED = 130
EXIT_NO_READER = 141
