"""mx.registry, mx.log and the address of Gluon's repository."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import minigluon as mx


def test_classes_are_made_by_name_alias_and_json() -> None:
    class Base:
        def __init__(self, size: int = 1) -> None:
            self.size = size

    register = mx.registry.get_register_func(Base, "thing")
    alias = mx.registry.get_alias_func(Base, "thing")
    create = mx.registry.get_create_func(Base, "thing")

    @register
    @alias("other", "third")
    class Thing(Base):
        """One of them."""

    assert set(mx.registry.get_registry(Base)) == {"thing", "other", "third"}
    assert type(create("Other")) is Thing and create("thing", 3).size == 3
    assert create('["third", {"size": 4}]').size == 4 and create(thing="third").size == 1
    made = Thing()
    assert create(made) is made
    with pytest.raises(ValueError, match=r"unknown thing 'thng'; did you mean 'thing'"):
        create("thng")
    with pytest.raises(TypeError, match="subclass of Base"):
        register(int)
    with pytest.raises(TypeError, match="name of a thing"):
        create()


def test_a_logger_writes_to_its_file(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    logger = mx.log.get_logger("minigluon-test", str(path), level=mx.log.INFO)
    assert mx.log.get_logger("minigluon-test") is logger and len(logger.handlers) == 1
    logger.info("seen %d", 3)
    logger.debug("not seen")
    text = path.read_text()
    assert text.startswith("I") and text.endswith("] seen 3\n") and "test_small_rooms.py" in text
    assert mx.log.getLogger is mx.log.get_logger and mx.log.get_logger() is logging.getLogger()
    logger.handlers[0].close()


def test_the_repository_may_be_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    from minigluon.gluon.utils import _get_repo_file_url, _get_repo_url

    monkeypatch.delenv("MXNET_GLUON_REPO", raising=False)
    assert _get_repo_url().startswith("https://") and _get_repo_url().endswith("/")
    monkeypatch.setenv("MXNET_GLUON_REPO", "http://localhost:1/files")
    assert _get_repo_file_url("gluon/models", "a.zip") == "http://localhost:1/files/gluon/models/a.zip"
