"""The rules of the house: who imports whom, and that the README's promises have a file behind them."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FORBIDDEN = {
    "multigpu": {"asr", "data_pipeline"},
    "asr": {"multigpu", "data_pipeline"},
    "data_pipeline": {"multigpu"},
}
# what composes the packages, as train.py does
COMPOSERS = set((ROOT / "asr" / "commands").glob("*.py"))
DATA_PIPELINE_MAY_USE = {
    "asr.types",
    "asr.files",
    "asr.audio",
    "asr.vocabulary",
    "asr.config",
    "asr.page",
    "asr.charts",
    "asr.histogram",
    "asr.lock",
}
LIGHT = [
    "asr.engine",
    "asr.journal",
    "asr.lock",
    "asr.run",
    "asr.run_state",
    "asr.run_list",
    "asr.average",
    "asr.pictures",
    "asr.compare",
    "asr.report.compare_page",
    "asr.evaluation.compare_scores",
    "asr.report.compare_scores_page",
    "asr.report.report",
    "asr.evaluation.score",
    "asr.evaluation.significance",
    "asr.spread",
    "asr.transcripts",
    "asr.types",
    "asr.files",
    "asr.config",
    "asr.vocabulary",
    "asr.metrics",
    "asr.evaluation.written_text",
    "asr.cli",
    "data_pipeline.manifest",
    "data_pipeline.corpora",
    "data_pipeline.doctor.diagnosis",
    "data_pipeline.download.fetch",
    "data_pipeline.download.unpack",
    "data_pipeline.inspection",
    "data_pipeline.prepare",
    "multigpu",
    "multigpu.__main__",
]


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield node.module


@pytest.mark.parametrize("package", sorted(FORBIDDEN))
def test_packages_import_only_whom_they_may(package):
    for path in (ROOT / package).rglob("*.py"):
        if path in COMPOSERS:
            continue
        for name in imports(path):
            assert name.split(".")[0] not in FORBIDDEN[package], f"{path} imports {name}"
            if package == "data_pipeline" and name.split(".")[0] == "asr":
                assert name in DATA_PIPELINE_MAY_USE, f"{path} imports {name}"


@pytest.mark.parametrize("module", LIGHT)
def test_light_modules_import_no_tensorflow(module):
    program = f"import sys, {module}; assert not {{'tensorflow', 'keras'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


@pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md"])
def test_every_file_a_readme_names_is_there(readme):
    text = (ROOT / readme).read_text(encoding="utf-8")
    named = re.findall(r"\]\(([^)#:]+)\)", text) + re.findall(
        r"`((?:configs|benchmarks|asr|data_pipeline|multigpu)/[\w./]+)`", text
    )
    assert named
    for name in named:
        assert (ROOT / name).exists(), f"{readme} names {name}"
