"""Exercises are found by name, and one module is all that a new chapter adds."""

from __future__ import annotations

import ast
import importlib
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import transformer_lib.exercises as package
from transformer_lib.exercises import check, registry
from transformer_lib.exercises.confusion import confusion
from transformer_lib.exercises.engine import Exercise
from transformer_lib.exercises.pencil import Pencil


@pytest.fixture
def extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose modules belong to the package while a test runs."""
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    registry.topics.cache_clear()
    importlib.invalidate_caches()
    yield tmp_path
    registry.topics.cache_clear()


def _example() -> str:
    """The module that the package's docstring shows."""
    text = package.__doc__ or ""
    block = text.split("a chapter with one exercise::", 1)[1]
    lines = block.splitlines()[1:]
    end = next(
        i for i, line in enumerate(lines) if line and not line.startswith("    ")
    )
    return textwrap.dedent("\n".join(lines[:end]))


def test_a_chapter_adds_one_module_as_the_docstring_shows(extra: Path) -> None:
    source = _example()
    assert len(source.strip().splitlines()) <= 30
    (extra / "doubling.py").write_text(source, encoding="utf-8")
    assert check("double", lambda x: x + x).passed
    assert check("double", lambda x: x**2).mistakes == ("squared",)
    assert confusion(registry.find("double")).errors == []


def test_two_modules_may_not_declare_one_name(extra: Path) -> None:
    (extra / "again.py").write_text('EXERCISES = ("softmax",)\n', encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"'softmax' is declared twice, in again\.py and"
    ):
        registry.topics()


def test_a_module_that_lists_a_name_without_declaring_it_is_reported(
    extra: Path,
) -> None:
    (extra / "empty.py").write_text('EXERCISES = ("nothing",)\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"empty\.py lists the exercise 'nothing'"):
        check("nothing", None)


def test_a_topic_whose_requirement_is_missing_says_so(extra: Path) -> None:
    text = 'EXERCISES = ("far",)\nimport a_module_that_is_not_there\n'
    (extra / "needy.py").write_text(text, encoding="utf-8")
    with pytest.raises(ImportError, match=r"'far' \(topic needy\) could not be loaded"):
        check("far", None)


def test_every_listed_exercise_is_declared_and_every_declared_one_listed() -> None:
    for name, topic in registry.topics().items():
        assert registry.find(name).name == name
        module = importlib.import_module(f"transformer_lib.exercises.{topic}")
        kinds = (Exercise, Pencil)
        declared = {e.name for e in vars(module).values() if isinstance(e, kinds)}
        assert declared == set(module.EXERCISES)


def test_the_exercises_of_chapters_1_to_3_are_there() -> None:
    by_topic: dict[str, set[str]] = {}
    for name, topic in registry.topics().items():
        by_topic.setdefault(topic, set()).add(name)
    assert by_topic["recurrence"] == {
        "rnn_step", "unroll", "gradient_product", "lstm_step", "recurrent_factor",
        "last_state",
    }  # fmt: skip
    assert by_topic["lookup"] == {
        "hard_lookup", "softmax", "soft_lookup", "entropy", "pencil_lookup",
        "softmax_backward", "repaired_months",
    }  # fmt: skip
    assert by_topic["attention"] == {
        "pencil_attention", "attention_scores", "attention", "self_attention",
        "repaired_attention", "attention_backward",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sofmax", 'Did you mean "softmax"'),
        ("attention_score", 'Did you mean "attention_scores"'),
        ("lstm", '"lstm_step"'),
        ("zebra", "The exercises are "),
        ("", "The exercises are "),
    ],
)
def test_an_unknown_name_is_one_clear_sentence(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match="There is no exercise") as caught:
        check(name, None)
    assert hint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.no_shape_hook
def test_arguments_of_check_in_the_wrong_order_are_explained() -> None:
    with pytest.raises(TypeError, match=r'check\("softmax", my_softmax\)'):
        check(lambda s: s, "softmax")  # type: ignore[arg-type]


@pytest.mark.no_shape_hook
@pytest.mark.parametrize("seconds", [0, -1.0, "five", float("nan")])
def test_a_time_limit_must_be_above_zero(seconds: object) -> None:
    with pytest.raises(ValueError, match="seconds: got"):
        check("softmax", None, seconds=seconds)  # type: ignore[arg-type]


def test_the_line_of_names_is_found_in_the_text_only() -> None:
    assert registry.declared_in('x = 1\nEXERCISES = (\n    "a",\n    "b",\n)\n') == (
        "a",
        "b",
    )
    assert registry.declared_in("    EXERCISES = ('inside',)") == ()
    assert registry.declared_in("") == ()


def test_the_package_docstring_parses_as_python() -> None:
    ast.parse(_example())
