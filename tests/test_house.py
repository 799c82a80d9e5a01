"""Test the rules of the house: which module may import which, and that files named in READMEs exist."""

import ast
import re
import subprocess
import sys

import pytest
from helpers import ROOT, house

MAX_NAMES_OF_ASR = 17  # fourteen rooms and three files
MAX_NAMES = 14  # modules, data and folders of one folder
# modules that must start fast, without importing TensorFlow
LIGHT = [
    "asr",
    "asr.base.config",
    "asr.base.model_files.named",
    "asr.base.system.lock",
    "asr.base.vocabulary",
    "asr.cli.main",
    "asr.ctc.forced_alignment",
    "asr.evaluation.comparison",
    "asr.evaluation.averaged_run",
    "asr.evaluation.decoder_tuning",
    "asr.evaluation.errors.metrics",
    "asr.evaluation.evaluator",
    "asr.evaluation.scores",
    "asr.evaluation.errors.significance",
    "asr.evaluation.tables",
    "asr.evaluation.written_text",
    "asr.export",
    "asr.export.format",
    "asr.export.runtimes.onnx.recognizer",
    "asr.export.worker",
    "asr.model.devices",
    "asr.pages.pictures",
    "asr.transcription.alignment.aligner",
    "asr.transcription.decoder_choice",
    "asr.transcription.to_files.journal",
    "asr.transcription.recognizer",
    "asr.transcription.streaming.stream",
    "asr.transcription.formats",
    "asr.report.evaluation_comparison_page",
    "asr.report.evaluation_page",
    "asr.report.run_comparison_page",
    "asr.runs.average",
    "asr.runs.comparison",
    "asr.runs.listing",
    "asr.runs.run",
    "asr.runs.state",
    "asr.training.engine",
    "data_pipeline.corpora",
    "data_pipeline.doctor.diagnosis",
    "data_pipeline.download.fetch",
    "data_pipeline.download.archives",
    "data_pipeline.inspection.statistics",
    "data_pipeline.manifests.manifest",
    "data_pipeline.preparation.prepare",
    "multigpu",
    "multigpu.__main__",
]

UNCOUNTED = ("__init__.py", "__main__.py", "py.typed", "README.md", "NOTICE.md")  # every package has them


@pytest.fixture(scope="module")
def graph():
    return house.import_graph()


def test_rooms_import_only_rooms_before_them(graph):
    assert not house.upward_imports(graph)


def test_packages_import_only_what_the_rules_allow(graph):
    assert not house.foreign_imports(graph)


def test_no_modules_import_each_other_in_a_cycle(graph):
    assert not house.import_cycles(graph)


def test_asr_contains_only_its_rooms():
    names = {path.name for path in (ROOT / "asr").iterdir()} - {"__pycache__"}
    assert len(names) <= MAX_NAMES_OF_ASR
    assert names - set(house.ROOMS) <= {"__init__.py", "__main__.py", "py.typed"}


@pytest.mark.parametrize("top", ["asr", "data_pipeline", "multigpu", "benchmarks", "tools"])
def test_folders_are_taken_in_at_a_glance(top):
    names = {}
    for path in (ROOT / top).rglob("*.*"):
        if path.name not in UNCOUNTED and "__pycache__" not in path.parts:
            below = path.relative_to(ROOT / top).parts
            for depth, name in enumerate(below):
                names.setdefault(below[:depth], set()).add(name)
    assert {"/".join(folder): found for folder, found in names.items() if len(found) > MAX_NAMES} == {}


def test_planted_violation_of_each_import_rule_is_found(tmp_path):
    for path, text in {
        "asr/base/types.py": "from asr.cli import console",
        "asr/cli/console.py": "",
        "asr/runs/a.py": "def f():\n    import asr.runs.b",
        "asr/runs/b.py": "from asr.runs import a",
        "data_pipeline/corpora/one.py": "import data_pipeline.download.two",
        "data_pipeline/download/two.py": "from asr.ctc import loss",
        "data_pipeline/download/three.py": "import data_pipeline.corpora.one",
        "asr/ctc/loss.py": "import multigpu.replication.towers",
        "multigpu/replication/towers.py": "",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).parent.joinpath("__init__.py").touch()
        (tmp_path / path).write_text(text, encoding="utf-8")
    planted = house.import_graph(tmp_path)
    assert house.upward_imports(planted) == ["asr.base.types imports asr.cli.console"]
    assert set(house.foreign_imports(planted)) == {
        "asr.ctc.loss imports multigpu.replication.towers",
        "data_pipeline.download.two imports asr.ctc.loss",
    }
    assert house.import_cycles(planted) == [
        ["asr.runs.a", "asr.runs.b"],
        ["data_pipeline.corpora", "data_pipeline.download"],
    ]


def test_light_modules_import_no_tensorflow():
    program = (
        "import importlib, sys\n"
        "for module in sys.argv[1:]:\n"
        "    importlib.import_module(module)\n"
        "    found = {'tensorflow', 'keras'} & set(sys.modules)\n"
        "    assert not found, f'{module} imports {found}'\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *LIGHT], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_tests_mirror_the_rooms():
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")} - {ROOT / "tests"}
    for folder in folders:
        mirrored = ROOT / folder.relative_to(ROOT / "tests")
        assert mirrored.is_dir() or folder.name == "end_to_end", f"{folder} mirrors no folder"


def test_imports_are_absolute_in_tests_too():
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not (isinstance(node, ast.ImportFrom) and node.level), path


@pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md"])
def test_every_file_that_a_readme_names_exists(readme):
    text = (ROOT / readme).read_text(encoding="utf-8")
    named = re.findall(r"\]\(([^)#:]+)\)", text) + re.findall(
        r"`((?:configs|benchmarks|tools|asr|data_pipeline|multigpu)/[\w./]+)`", text
    )
    assert named
    for name in named:
        assert (ROOT / name).exists(), f"{readme} names {name}"
