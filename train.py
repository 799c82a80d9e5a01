"""Train a model: `python train.py` is `asr train`.

python train.py                                  # the demo, in five minutes
python train.py configs/hsk_words.toml           # real recordings
python train.py thchs30                          # a public corpus, from download to report
python train.py --set train.epochs=60 --name long
python train.py --resume                         # continue a run that was stopped
"""

import sys

from asr.cli.main import main

sys.exit(main(["train", *sys.argv[1:]]))
