"""make test runs each test once, counts honestly, and closes with one plain line."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import environment
import pytest
import test as course_test

REPORT = """\
<testsuites><testsuite>
<testcase classname="a" name="good"/>
<testcase classname="a" name="bad"><failure message="x"/></testcase>
<testcase classname="a" name="broken"><error message="x"/></testcase>
<testcase classname="a" name="left"><skipped type="pytest.skip" message="why"/></testcase>
<testcase classname="a" name="known"><skipped type="pytest.xfail" message="b"/></testcase>
</testsuite></testsuites>
"""


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "report.xml"
    path.write_text(REPORT, encoding="utf-8")
    return path


def test_report_is_counted(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    result = course_test.count(report)
    assert (result.passed, result.failed, result.skipped) == (2, 2, 1)
    assert result.complaints == ["a::bad", "a::broken"]
    assert result.reasons == ["why"]


def test_skipped_test_fails_in_ci(
    report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    result = course_test.count(report)
    assert (result.passed, result.failed) == (2, 3)
    assert "a::left was skipped: why" in result.complaints


def test_summary_closes_with_the_plain_line_and_tells_what_did_not_run() -> None:
    results = {
        "unit": course_test.Result(passed=3, failed=1, complaints=["a::bad"]),
        "browser": course_test.Result(skipped=2, reasons=["no Chromium"] * 2),
    }
    text = course_test.summary(results, {"gpu": 4, "data": 1})
    assert text.splitlines()[-1] == "3 passed, 1 failed"
    assert "FAILED unit: a::bad" in text
    assert "Skipped, 2 tests: no Chromium" in text
    assert "4 gpu tests" in text
    assert "1 data tests" in text
    assert "Not asked for: lint," in text


def run(folder: Path, source: str) -> course_test.Result:
    """One run over a test file, without the plugins, which take long to load."""
    path = folder / "test_it.py"
    path.write_text(source, encoding="utf-8")
    alone = ["-o", "addopts=", f"--rootdir={folder}", str(path)]
    return course_test.run_pytest(folder, *alone, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")


def test_run_that_selects_nothing_fails(tmp_path: Path) -> None:
    result = run(tmp_path, "")
    assert result.failed == 1
    assert "selected no test" in result.complaints[0]


def test_file_that_cannot_be_imported_fails(tmp_path: Path) -> None:
    assert run(tmp_path, "import no_such_module").failed == 1


def test_failure_outside_of_the_tests_fails(tmp_path: Path) -> None:
    source = (
        "import pytest\n@pytest.fixture(scope='session', autouse=True)\n"
        "def end():\n    yield\n    raise RuntimeError\ndef test_x(): pass\n"
    )
    assert run(tmp_path, source).failed >= 1


def test_left_out_tests_are_counted_once(tmp_path: Path) -> None:
    (tmp_path / "left-out-1.json").write_text('{"gpu": ["a", "b"], "data": []}')
    (tmp_path / "left-out-2.json").write_text('{"gpu": ["b", "c"], "data": ["d"]}')
    assert course_test.left_out(tmp_path) == {"gpu": 3, "data": 1}


def test_phases_select_each_marker_combination_once() -> None:
    """Whatever a test is marked with, one phase selects it, unless it needs what is not here."""
    source = ast.unparse(
        ast.parse(Path(course_test.__file__).read_text(encoding="utf-8"))
    )
    asked = re.findall(r"selection\('([^']+)'\)", source)
    assert set(asked) == {"not browser and not slow", "browser", "slow and not browser"}
    for browser in (False, True):
        for slow in (False, True):
            marks = {"browser": browser, "slow": slow}
            hits = [a for a in sorted(set(asked)) if eval(a, {}, marks)]
            assert len(hits) == 1, marks


def test_folders_apart_have_their_own_phase() -> None:
    source = Path(course_test.__file__).read_text(encoding="utf-8")
    (apart,) = re.findall(r"for name in \((.+)\)\]\n    quick", source)
    for name in re.findall(r'"(\w+)"', apart):
        assert f'run_pytest(folder, "tests/{name}", *quick' in source


def test_unknown_phase_is_told_with_those_there_are() -> None:
    with pytest.raises(
        environment.Stop, match=r"no phase units; there are: lint, unit"
    ):
        course_test.main(["units"])
