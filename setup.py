"""List the packages to install; everything else about the project is in pyproject.toml."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["asr*", "data_pipeline*", "multigpu*"]), "asr.configs"],
    package_dir={"asr.configs": "configs"},  # no import name of its own: others have a `configs`
)
