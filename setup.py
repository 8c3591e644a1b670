"""Which folders become packages. The rest of the project's description is in pyproject.toml.

`tools/minigluon_launch` is installed as a package of its own beside `minigluon`: the launcher must
not import what it launches, and `python tools/launch.py` must work where nothing is installed.
"""

from __future__ import annotations

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["minigluon", "minigluon.*"]), "minigluon_launch"],
    package_dir={"minigluon_launch": "tools/minigluon_launch"},
    package_data={"minigluon": ["py.typed", "gluon/data/vision/mnist-10k/*"]},
    include_package_data=False,
)
