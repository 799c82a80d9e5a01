"""`python -m asr` is the command `asr`."""

import sys

from asr.cli import main

sys.exit(main())
