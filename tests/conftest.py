"""Shared by all tests: the shape hook can be switched off; what is left out is counted."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest

LEFT_OUT = ("gpu", "data")


@pytest.fixture(autouse=True)
def _shape_hook(request: pytest.FixtureRequest) -> Iterator[None]:
    """``@pytest.mark.no_shape_hook``: our own checks answer, not jaxtyping's."""
    if request.node.get_closest_marker("no_shape_hook") is None:
        yield
        return
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture(autouse=True)
def _fresh_compiler(request: pytest.FixtureRequest) -> None:
    """What one test compiled must not count against the next one's limit."""
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is not None and "compile" in request.node.name:
        dynamo.reset()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tell tools/test.py which tests need what is not there, before they are dropped."""
    folder = os.environ.get("COURSE_LEFT_OUT")
    if not folder:
        return
    found = {
        marker: [i.nodeid for i in items if i.get_closest_marker(marker) is not None]
        for marker in LEFT_OUT
    }
    path = Path(folder) / f"left-out-{os.getpid()}.json"
    path.write_text(json.dumps(found), encoding="utf-8")
