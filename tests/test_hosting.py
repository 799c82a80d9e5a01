"""Test the files that a host of the repository reads: the citation, the workflow and the forms for issues."""

import os
import tomllib

import pytest
from helpers import ROOT

from asr.base.model_files.model_file import about_of
from asr.base.model_files.named import BOX

yaml = pytest.importorskip("yaml", reason="needs PyYAML, which the extra docs installs")


def read(path):
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_citation_agrees_with_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = read("CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert citation["version"] == project["version"]
    code, weights = project["license"].split(" AND ")
    assert citation["license"] == code
    assert weights == about_of(BOX)["licence"].replace(" ", "-")
    assert citation["authors"] == project["authors"]


def test_workflow_runs_what_ci_runs_and_nothing_else():
    (job,) = read(".github/workflows/ci.yml")["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    assert os.access(ROOT / ".ci/run", os.X_OK)


@pytest.mark.parametrize("form", ["bug", "question"])
def test_form_for_issues_has_what_the_host_requires(form):
    described = read(f".github/ISSUE_TEMPLATE/{form}.yml")
    assert {"name", "description", "body"} <= described.keys()
    questions = [part for part in described["body"] if part["type"] != "markdown"]
    assert all(part["attributes"]["label"] for part in questions)
    assert len({part["id"] for part in questions}) == len(questions) > 0
