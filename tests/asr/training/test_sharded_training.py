"""A run that is trained on shards is, to the last bit, that of the same utterances in one file."""

import pytest

from asr import load_config, train
from asr.base.errors import UserError
from asr.training.final_evaluation import refuse_final_files
from data_pipeline.manifests.manifest import read_manifest, write_manifest


@pytest.fixture(scope="module")
def configured(clip_config, clips, tmp_path_factory):
    """Return what makes a configuration with a training set in shards, and one with the set in one file."""
    folder = tmp_path_factory.mktemp("sharded")
    write_manifest(folder / "train.jsonl", clips)
    third = len(clips) // 3
    for number, name in enumerate(("part-0.jsonl", "part-1.jsonl.gz", "part-2.jsonl")):
        rows = clips[number * third : (number + 1) * third if number < 2 else None]
        write_manifest(folder / name, rows)

    def configured(*changes):
        return load_config(clip_config, ["train.epochs=1", f"train.runs_dir={folder}/runs", *changes])

    return folder, configured


@pytest.mark.slow
def test_run_on_shards_equals_the_run_on_one_file(configured, clips):
    folder, config = configured
    assert read_manifest(folder / "part-*") == read_manifest(folder / "train.jsonl")
    runs = []
    for name, manifest in (("whole", "train.jsonl"), ("shards", "part-*.jsonl*")):
        trained = train(
            config(f"data.train={folder}/{manifest}", f"data.test={folder}/{manifest}"), name=name
        )
        (metrics,) = trained.run.metrics()
        runs.append((metrics.loss, metrics.dev_loss, trained.evaluation.record.loss))
    assert runs[0] == runs[1]
    assert (folder / "part.jsonl.checked").exists()


def test_further_test_set_may_be_in_shards(configured):
    folder, config = configured
    refuse_final_files(config(f"data.more_tests={folder}/part-*.jsonl*"))
    with pytest.raises(UserError, match=r"none-\*, which does not exist"):
        refuse_final_files(config(f"data.more_tests={folder}/none-*"))
