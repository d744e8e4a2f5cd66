"""The command: what it writes, what it refuses, and with which code it ends."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from transformer_lib import tasks
from transformer_lib.tasks import TASKS, Task, download, multi30k
from transformer_lib.training import checkpoint, command, evaluation, loop, trained
from transformer_lib.training.command import main
from transformer_lib.training.distributed import PartnerLost
from transformer_lib.training.presets import PRESETS, Run

ROOT = Path(__file__).resolve().parents[2]

VALUES = """
--set task.train=300 --set task.validation=20 --set task.test=20
--set model.d_model=16 --set model.num_heads=2 --set model.d_ff=32
--set model.num_encoder_layers=1 --set model.num_decoder_layers=1
--set max_tokens=256 --set warmup=2 --set steps=6 --set validate_every=3
--set checkpoint_every=2 --set lr=0.03 --device cpu
"""
TINY = VALUES.split()
DATES = ["--task", "dates", *TINY]

ASKED_FOR = "--task dates --preset tiny --device auto --set steps=20"

Output = pytest.CaptureFixture[str]


def last_line(folder: Path) -> dict[str, Any]:
    text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text.splitlines()[-1])
    return found


def checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def refused(capsys: Output, *arguments: str, code: int = 2) -> str:
    """Run the command, which must end with this code and no traceback; the message."""
    capsys.readouterr()
    assert main(list(arguments)) == code
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return err


@pytest.fixture(scope="module", autouse=True)
def _quick() -> Iterator[None]:
    """One task of each kind for all tests, and no waiting for the disk."""
    made: dict[str, Task] = {}

    def load(name: str, **options: Any) -> Task:
        key = json.dumps([name, options])
        if name != "dates":
            return original(name, **options)
        if key not in made:
            made[key] = original(name, **options)
        return made[key]

    original = tasks.load_task
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "load_task", load)
        patch.setattr(trained, "load_task", load)
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture
def _ctrl_c_is_heard() -> Iterator[None]:
    """A shell that starts the tests in the background lets them ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run; tests must leave it as it is."""
    folder = tmp_path_factory.mktemp("runs") / "dates"
    assert main([*DATES, "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(finished, tmp_path / "copy")


# ------------------------------------------------------------------------------ the help


def test_help_needs_no_torch_and_no_numpy() -> None:
    program = (
        "import sys\n"
        "sys.modules['torch'] = sys.modules['numpy'] = None\n"
        "from transformer_lib.training.command import main\n"
        "sys.exit(main(['--help']) + main(['train', '--help']) + main(['x']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "examples:" in done.stdout
    assert "command: there is no 'x'" in done.stderr


def test_help_names_every_task_preset_command_and_code(capsys: Output) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for name in command.COMMANDS:
        assert re.search(rf"^  {name} ", text, re.MULTILINE)
    codes = [int(code) for code in re.findall(r"^ {2,4}(\d+)  ", text, re.MULTILINE)]
    assert codes == [*range(9), 130, 143]
    assert main(["train", "--help"]) == 0
    text = capsys.readouterr().out
    assert ", ".join(TASKS) in text
    presets = re.findall(r"^  (\w*) +(\w+)   ", text, re.MULTILINE)
    told: dict[str, list[str]] = {}
    for task, name in presets:
        told.setdefault(task or list(told)[-1], []).append(name)
    assert {task: sorted(those) for task, those in told.items()} == {
        task: sorted(those) for task, those in PRESETS.items()
    }
    for name in ("resume", "evaluate", "translate"):
        assert main([name, "--help"]) == 0
        assert "RUN" in capsys.readouterr().out


def test_without_arguments_it_tells_how_to_use_it(capsys: Output) -> None:
    assert main([]) == 2
    assert "examples:" in capsys.readouterr().err


def examples() -> list[list[str]]:
    text = command.EXAMPLES.format(name=command.NAME).replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines()[1:]]
    return [shlex.split(line) for line in lines if line and not line.startswith("#")]


def test_examples_of_the_help_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Output,
) -> None:
    """Each line as a shell would split it; only the sizes are made smaller."""
    monkeypatch.chdir(tmp_path)
    found = examples()
    assert len(found) == 8
    for words in found:
        if "torch.distributed.run" in words:
            continue  # has its own test
        if "|" in words:
            text = words[1]
            monkeypatch.setattr(sys, "stdin", io.StringIO(text + "\n"))
            words = words[words.index("|") + 1 :]
        target = None
        if ">" in words:
            target = Path(words[-1])
            words = words[: words.index(">")]
        assert words[:3] == command.NAME.split()
        arguments = words[3:]
        if arguments[0].startswith("--"):
            small = TINY
            if "--set" in arguments:  # what the example sets is not for us to change
                small = [x for x in TINY if x not in ("--set", "model.d_model=16")]
                small = [y for x in small[:-2] for y in ("--set", x)] + small[-2:]
            arguments = [*small, *arguments]
        if "--out" in arguments and "--config" not in arguments:
            arguments += ["--set", "steps=6"]
        assert main(arguments) == 0, arguments
        out = capsys.readouterr().out
        if target is not None:
            target.write_text(out, encoding="utf-8")
    run = Run.from_file(Path("runs/small/run.toml"))
    assert (run.settings.lr, run.model["d_model"]) == (1e-3, 32)


# ------------------------------------------------------------------------------ training


def test_a_run_ends_with_its_result(finished: Path) -> None:
    result = last_line(finished)
    assert 0.0 <= result["exact_match"] <= 100.0
    assert result["step"] == 6
    assert checkpoints(finished) == [f"step-0000000{n}" for n in (2, 4, 6)]
    run = Run.from_file(finished / "run.toml")
    assert (run.settings.steps, run.settings.device) == (6, "cpu")


def test_the_line_that_the_issue_asks_for(tmp_path: Path, capsys: Output) -> None:
    """The preset as it is, 20 steps of it: the warm-up of 120 steps must follow."""
    out = tmp_path / "läufe 한글" / "dates"
    words = f"{ASKED_FOR} --set train=300 --set validation=8 --set test=8"
    assert main([*words.split(), "--out", str(out)]) == 0
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert printed["exact_match"] == last_line(out)["exact_match"]
    assert (printed["split"], printed["step"]) == ("test", 20)
    assert Run.from_file(out / "run.toml").settings.warmup == 2


def test_preset_then_file_then_set_and_show_gives_a_file(
    tmp_path: Path, capsys: Output
) -> None:
    file = tmp_path / "run.toml"
    file.write_text("[training]\nlr = 5e-4\nseed = 1\n[model]\ndropout = 0.2\n")
    words = ["--task", "dates", "--preset", "tiny", "--config", str(file), "--show"]
    assert main([*words, "--set", "training.seed=2", "--set", "task.seed=3"]) == 0
    text = capsys.readouterr().out
    run = Run.from_toml(text)
    assert (run.settings.lr, run.settings.seed, run.settings.steps) == (5e-4, 2, 1200)
    assert (run.model["dropout"], run.model["d_model"]) == (0.2, 64)
    assert run.task_options == {"seed": 3}
    file.write_text(text, encoding="utf-8")
    assert main(["--config", str(file), "--show"]) == 0
    assert Run.from_toml(capsys.readouterr().out) == run


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("20", 20),
        ("1e-3", 1e-3),
        (".5", 0.5),
        ("True", True),
        ("none", None),
        ("[0.9, 0.98]", [0.9, 0.98]),
        (' "cpu" ', "cpu"),
        ("cuda:1", "cuda:1"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_values_of_set_are_read(text: str, value: Any) -> None:
    found = command._value(text)
    assert (found, type(found)) == (value, type(value))


def test_two_runs_in_one_folder_are_refused(run: Path, capsys: Output) -> None:
    before = (run / "metrics.jsonl").read_bytes()
    message = refused(capsys, *DATES, "--out", str(run))
    assert f"resume {run}" in message
    assert "another folder" in message
    assert (run / "metrics.jsonl").read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="no lock on Windows")
def test_two_processes_in_one_folder_are_refused(run: Path, capsys: Output) -> None:
    with command._alone_in(run, resume=True):
        message = refused(capsys, "resume", str(run))
        assert "another process is training in this folder" in message
    assert main(["resume", str(run)]) == 0


def test_a_finished_run_can_be_resumed_and_prolonged(run: Path, capsys: Output) -> None:
    before = last_line(run)
    assert main(["resume", str(run)]) == 0
    for key in ("exact_match", "loss", "step"):
        assert last_line(run)[key] == before[key]
    assert main(["resume", str(run), "--set", "steps=8"]) == 0
    assert last_line(run)["step"] == 8
    message = refused(capsys, "resume", str(run), "--set", "d_model=32")
    assert "keeps its model" in message


# -------------------------------------------------------------------- evaluate, translate


def test_evaluate_gives_the_score_of_the_run(finished: Path, capsys: Output) -> None:
    capsys.readouterr()
    assert main(["evaluate", str(finished)]) == 0
    found = json.loads(capsys.readouterr().out)
    wanted = last_line(finished)
    assert found["split"] == wanted["result"] == "test"
    assert found["exact_match"] == wanted["exact_match"]
    assert found["loss"] == pytest.approx(wanted["loss"], abs=1e-4)
    words = ["evaluate", str(finished), "--split", "validation", "--beam-size", "2"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["split"], found["beam_size"]) == ("validation", 2)
    message = refused(capsys, "evaluate", str(finished), "--split", "tets")
    assert "perhaps 'test' is meant" in message
    message = refused(capsys, "evaluate", str(finished), "--beam-size", "0")
    assert "beam_size: got 0" in message


@pytest.mark.parametrize(
    "settings", [["average=3"], ["patience=1", "validate_every=1", "lr=0.5"]]
)
def test_evaluate_takes_the_weights_that_the_run_took(
    tmp_path: Path, capsys: Output, settings: list[str]
) -> None:
    """Mean of the last three, or the best of those validated; not the newest."""
    words = [x for setting in settings for x in ("--set", setting)]
    assert main([*DATES, *words, "--out", str(tmp_path)]) == 0
    wanted = last_line(tmp_path)
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["loss"] == pytest.approx(wanted["loss"], abs=1e-4)
    assert wanted["weights_of_steps"] != [wanted["step"]]


def test_translate_answers_arguments_one_line_each(
    finished: Path, capsys: Output
) -> None:
    capsys.readouterr()
    assert main(["translate", str(finished), "July 3, 1914", "5. Mai 1966"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all(lines)
    words = ["translate", str(finished), "5. Mai 1966", "--beam-size", "3"]
    assert main(words) == 0


def last_word(model: Any, task: Any, texts: list[str], **options: Any) -> list[str]:
    """In place of a model."""
    return [text.split()[-1] for text in texts]


def test_a_text_that_cannot_be_read_does_not_stop_the_others(
    finished: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its line is empty, so that line n still answers text n."""
    monkeypatch.setattr(evaluation, "translate", last_word)
    texts = ["July 3, 1914", "~ 3, 1914", "5. Mai 1966", "9" * 500, ""]
    message = refused(capsys, "translate", str(finished), *texts)
    assert "error: text 2: got '~' in '~ 3, 1914', wanted characters" in message
    assert "error: text 4: got 500 tokens" in message
    assert "error: text 5: got ''" in message
    assert main(["translate", str(finished), *texts]) == 2
    assert capsys.readouterr().out.splitlines() == ["1914", "", "1966", "", ""]


def test_translate_reads_lines_and_keeps_empty_ones(
    finished: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "TOGETHER", 2)
    monkeypatch.setattr(evaluation, "translate", last_word)
    data = "\ufeffJuly 3, 1914\r\n\n5. Mai 1966\n".encode() + b"\xff\xfe\nMai 7"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    capsys.readouterr()
    assert main(["translate", str(finished)]) == 2
    out, err = capsys.readouterr()
    assert out.splitlines() == ["1914", "", "1966", "", "7"]
    assert "error: text 4: got '\\udcff'" in err
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert main(["translate", str(finished)]) == 0
    assert capsys.readouterr().out == ""


# ------------------------------------------------------------------- code 2: the request


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian"], "command: there is no 'trian'; perhaps 'train' is meant"),
        (["--preset", "tiny"], "task: got none, wanted --task NAME (one of dates"),
        (["--task", "date"], "task: there is no 'date'; perhaps 'dates' is meant"),
        (["--task", "x\udce9"], "task: there is no 'x\\udce9'; known are dates"),
        (["--task", "dates", "--preset", "tyni"], "perhaps 'tiny' is meant"),
        ([*DATES, "--set", "stepz=3"], "there is no 'stepz'; perhaps 'steps' is meant"),
        ([*DATES, "--set", "model.d_modle=3"], "perhaps 'd_model' is meant"),
        ([*DATES, "--set", "task.trian=3"], "perhaps 'train' is meant"),
        ([*DATES, "--set", "modell.d_ff=3"], "perhaps 'model' is meant"),
        ([*DATES, "--set", "steps"], "--set: got 'steps', wanted KEY=VALUE"),
        ([*DATES, "--set", "=3"], "--set: got '=3', wanted KEY=VALUE"),
        ([*DATES, "--set", "steps=0"], "steps: got 0, wanted 1 or more"),
        ([*DATES, "--set", "steps=many"], "steps: got 'many', wanted a whole number"),
        ([*DATES, "--set", "lr=nan"], "lr: got nan"),
        ([*DATES, "--set", "warmup=7"], "warmup: got 7, wanted"),
        ([*DATES, "--set", "model.num_heads=3"], "not divisible by num_heads=3"),
        ([*DATES, "--set", "d_model=0"], "d_model: got 0"),
        ([*DATES, "--set", "vocab_size=9"], "there is no 'vocab_size'"),
        ([*DATES, "--set", "max_tokens=5"], "wanted at most max_tokens=5"),
        ([*DATES, "--set", "train=0"], "got none, wanted at least one"),
        ([*DATES, "--set", "train=900000"], "wanted at most 73049"),
        ([*DATES, "--device", "gpu"], "device: got 'gpu'"),
        ([*DATES, "--device", "cuda:77"], "device: got 'cuda:77'"),
        ([*DATES, "--timeout", "0"], "timeout: got 0"),
        ([*DATES, "--timeout", "soon"], "invalid float value: 'soon'"),
        (["resume", "no/such/run"], "no/such/run"),
        (["evaluate"], "RUN"),
    ],
    ids=lambda value: " ".join(value[-2:]) if isinstance(value, list) else "",
)
@pytest.mark.no_shape_hook
def test_a_request_that_cannot_be_met_is_explained(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Output,
) -> None:
    monkeypatch.chdir(tmp_path)
    code = 4 if arguments[0] == "resume" else 2
    message = refused(capsys, *arguments, code=code)
    assert words in message
    assert not any(tmp_path.iterdir()), "it left something behind"


NEEDED = b"[training]\nlr = 1\nmax_tokens = 256\n"


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"[training]\nsteps = = 3\n", "line 2"),
        (b"[training]\nsteps = 3\nsteps = 4\n", "line 3"),
        (b"[trainig]\nsteps = 3\n", "perhaps 'training' is meant"),
        (b"[training]\nstep = 3\n", "there is no 'step'; perhaps 'steps' is meant"),
        (NEEDED + b"steps = 'x'\n", "steps: got 'x', wanted a whole number"),
        (b"training = 3\n", "training: got 3, wanted a table"),
        (b"[task]\nname = 'multi30k'\n", "--task dates, but"),
        (NEEDED + b"steps = 3\n[task]\nsize = 3\n", "size"),
        (b"[training]\nlr = 1\n", "'steps' is missing"),
        (b"\xff\xfe\x00", "utf-8"),
        (None, "No such file"),
    ],
)
def test_a_file_of_settings_that_cannot_be_used_is_explained(
    text: bytes | None, words: str, tmp_path: Path, capsys: Output
) -> None:
    file = tmp_path / "run.toml"
    if text is not None:
        file.write_bytes(text)
    out = str(tmp_path / "out")
    message = refused(capsys, "--task", "dates", "--config", str(file), "--out", out)
    assert words in message
    assert not (tmp_path / "out").exists()
    assert "Is a directory" in refused(
        capsys, "--task", "dates", "--config", str(tmp_path), "--out", out
    )


def test_a_folder_that_cannot_be_used_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for place in (file, file / "below"):
        message = refused(capsys, *DATES, "--out", str(place))
        assert f"{place}: it cannot be written to" in message
    assert file.read_text() == "mine"
    message = refused(capsys, *DATES, "--out", str(tmp_path / ("x" * 300)))
    assert "it cannot be written to (File name too long)" in message

    def forbidden(path: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "touch", forbidden)
    message = refused(capsys, *DATES, "--out", str(tmp_path / "new"))
    assert "it cannot be written to (Permission denied)" in message
    assert not (tmp_path / "new").exists()


def test_a_folder_without_a_run_is_explained(tmp_path: Path, capsys: Output) -> None:
    for name in ("resume", "evaluate", "translate"):
        message = refused(capsys, name, str(tmp_path), code=4)
        assert str(tmp_path) in message
        message = refused(capsys, name, str(tmp_path / "nowhere"), code=4)
        assert "nowhere" in message


# --------------------------------------------------------------------- codes 3 to 8


def multi30k_files(folder: Path) -> None:
    for part in multi30k._PARTS.values():
        for language, word in (("en", "dog"), ("de", "hund")):
            lines = [f"a {word} {number}" for number in range(40)]
            path = folder / f"{part}.{language}"
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")


MULTI30K = ["--task", "multi30k", "--preset", "cpu", *TINY[6:], "--set"]
MULTI30K += ["task.vocab_size=300"]


def test_missing_data_say_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setenv("TRANSFORMER_LIB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TRANSFORMER_LIB_MULTI30K", raising=False)
    monkeypatch.setattr(multi30k, "_ADDRESS", "http://127.0.0.1:9")
    monkeypatch.setattr(download, "_PAUSE", 0.0)
    out = ["--out", str(tmp_path / "out")]
    message = refused(capsys, *MULTI30K, *out, code=3)
    assert "no connection" in message
    assert "TRANSFORMER_LIB_MULTI30K" in message
    assert not (tmp_path / "out").exists()
    monkeypatch.setenv("TRANSFORMER_LIB_MULTI30K", str(tmp_path))
    assert "train.en is not there" in refused(capsys, *MULTI30K, *out, code=3)


@pytest.mark.parametrize("package", ["tokenizers", "sacrebleu"])
def test_a_missing_package_is_named_before_training_begins(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    multi30k_files(tmp_path)
    monkeypatch.setenv("TRANSFORMER_LIB_MULTI30K", str(tmp_path))
    for name in list(sys.modules):
        if name.split(".")[0] == package:
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, package, None)
    message = refused(capsys, *MULTI30K, "--out", str(tmp_path / "out"), code=3)
    assert package in message
    assert "pip install" in message
    assert not (tmp_path / "out").exists()


def test_dates_need_none_of_the_extra_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("tqdm", "tqdm.auto", "tokenizers", "sacrebleu", "num2words"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main([*DATES, "--out", str(tmp_path / "out")]) == 0


def test_multi30k_runs_and_signs_its_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    multi30k_files(tmp_path)
    monkeypatch.setenv("TRANSFORMER_LIB_MULTI30K", str(tmp_path))
    out = str(tmp_path / "out")
    assert main([*MULTI30K, "--out", out]) == 0
    result = last_line(tmp_path / "out")
    assert 0.0 <= result["bleu"] <= 100.0
    assert "tok:13a" in result["signature"]
    monkeypatch.setenv("TRANSFORMER_LIB_MULTI30K", str(tmp_path / "gone"))
    capsys.readouterr()
    assert main(["translate", out, "a DOG 7"]) == 0, "translating needs no data"
    assert len(capsys.readouterr().out.splitlines()) == 1


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_damaged_checkpoint_is_passed_over_and_the_last_one_refused(
    run: Path, capsys: Output
) -> None:
    damage(run / "checkpoints" / "step-00000006" / "model.safetensors")
    for words in (["evaluate", str(run)], ["resume", str(run)]):
        capsys.readouterr()
        assert main(words) == 0
        err = capsys.readouterr().err
        assert re.search("warning: checkpoint passed over: .*step-00000006", err)
    assert last_line(run)["step"] == 6
    for name in checkpoints(run):
        damage(run / "checkpoints" / name / "state.json")
    for words in (["evaluate"], ["resume"], ["translate"]):
        message = refused(capsys, *words, str(run), code=4)
        assert "step-00000002: state.json" in message


def test_a_loss_that_is_no_number_stops_the_run(tmp_path: Path, capsys: Output) -> None:
    words = [*DATES, "--out", str(tmp_path / "out"), "--set", "lr=1e30"]
    message = refused(capsys, *words, code=5)
    assert "the loss is nan at step" in message
    assert "lower lr" in message


@pytest.mark.parametrize(
    "error",
    [
        torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried ..."),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling ..."),
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
    ids=lambda error: str(error)[:20],
)
def test_out_of_memory_says_what_to_lower(
    error: Exception,
    tmp_path: Path,
    finished: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Output,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(loop.Trainer, "_update", fail)
    message = refused(capsys, *DATES, "--out", str(tmp_path / "out"), code=6)
    assert "--set max_tokens=128 --set accumulate=2" in message
    monkeypatch.setattr(evaluation._Writer, "write", fail)
    message = refused(capsys, "evaluate", str(finished), code=6)
    assert "Lower --beam-size" in message
    message = refused(capsys, "translate", str(finished), "1. Mai 2001", code=6)
    assert "Lower --beam-size" in message


def test_a_full_disk_leaves_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """The second checkpoint finds no room; with room again the run ends as it should."""
    write, out = checkpoint._write, tmp_path / "out"

    def full(path: Path, data: bytes) -> None:
        if "step-00000004" in str(path) and path.suffix == ".safetensors":
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "_write", full)
        message = refused(capsys, *DATES, "--out", str(out), code=7)
    assert "no space left" in message
    assert "resume" in message
    assert checkpoints(out) == ["step-00000002"]
    assert main(["resume", str(out)]) == 0
    assert last_line(out)["step"] == 6


def test_other_faults_of_the_disk_have_the_same_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(loop, "save", fail)
    message = refused(capsys, *DATES, "--out", str(tmp_path), code=7)
    assert "Input/output error" in message


def test_a_lost_partner_has_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise PartnerLost("process 0 of 2 lost another one")

    monkeypatch.setattr(command, "LINGER", 0.0)
    monkeypatch.setattr(loop.Trainer, "_update", fail)
    message = refused(capsys, *DATES, "--out", str(tmp_path), code=8)
    assert "lost another one" in message


def test_processes_are_told_apart_and_torchrun_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    file = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(file))
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "3")
    message = refused(capsys, "--task", "date")
    assert message.startswith("[process 3] error: task: there is no 'date'")
    told = json.loads(file.read_text())["message"]
    assert told["message"] == told["extraInfo"]["py_callstack"] == message.strip()
    assert "got 4 processes, wanted one" in refused(capsys, "evaluate", "x")
    monkeypatch.delenv("RANK")
    assert "RANK: got nothing" in refused(capsys, *DATES, "--out", str(tmp_path))


# ------------------------------------------------------------------ stopped on the way


@pytest.mark.usefixtures("_ctrl_c_is_heard")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_stopped_in_training_it_writes_a_checkpoint_and_goes_on(
    number: int,
    code: int,
    tmp_path: Path,
    finished: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Output,
) -> None:
    def stop(view: Any) -> None:
        if view.step == 3:
            signal.raise_signal(number)

    with monkeypatch.context() as patch:
        patch.setattr(command, "_tell", stop)
        message = refused(capsys, *DATES, "--out", str(tmp_path), code=code)
    assert "stopped after step 4" in message  # the step is finished
    assert "error" not in message
    assert checkpoints(tmp_path) == ["step-00000002", "step-00000004"]
    assert main(["resume", str(tmp_path)]) == 0
    file = Path("checkpoints", "step-00000006", "model.safetensors")
    assert (tmp_path / file).read_bytes() == (finished / file).read_bytes()
    assert last_line(tmp_path)["exact_match"] == last_line(finished)["exact_match"]


@pytest.mark.usefixtures("_ctrl_c_is_heard")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_stopped_before_training_it_leaves_nothing(
    number: int,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Output,
) -> None:
    monkeypatch.setattr(command, "_load", lambda run: signal.raise_signal(number))
    before = signal.getsignal(signal.SIGTERM)
    message = refused(capsys, *DATES, "--out", str(tmp_path / "out"), code=code)
    assert "stopped by" in message
    assert not (tmp_path / "out").exists()
    assert signal.getsignal(signal.SIGTERM) == before


# --------------------------------------------------------------------------- tracebacks


def test_a_fault_of_ours_shows_where_it_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(loop.Trainer, "_update", fail)
    assert main([*DATES, "--out", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "planted" in err
    assert "please report" in err


def test_traceback_is_shown_when_asked_for(capsys: Output) -> None:
    assert main(["--task", "date", "--traceback"]) == 2
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("error: task: there is no 'date'")


# ------------------------------------------------------------------- as a real process


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def begin(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "transformer_lib.training", *arguments]
        process = subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, **options)
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM on Windows")
def test_a_process_that_gets_sigterm_ends_with_143_and_can_be_resumed(
    start: Any, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    endless = ["--set", "steps=1000000", "--set", "log_every=1"]
    process = start(*DATES, *endless, "--out", str(out), stdout=subprocess.PIPE)
    for line in process.stderr:  # ends with the process, whatever happens
        if line.startswith(b"step 3:"):
            process.send_signal(signal.SIGTERM)
            break
    _, err = process.communicate(timeout=120)
    assert process.returncode == 143, err
    assert b"SIGTERM: stopped after step" in err
    assert b"Traceback" not in err
    newest = checkpoints(out)[-1]
    metrics = (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(metrics[-1])["step"] <= int(newest.removeprefix("step-"))
    steps = str(int(newest.removeprefix("step-")) + 2)
    assert main(["resume", str(out), "--set", f"steps={steps}"]) == 0
    assert last_line(out)["step"] == int(steps)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no pipes of this kind on Windows")
def test_nobody_listening_is_no_disaster(start: Any, finished: Path) -> None:
    """``translate | head -1`` stops; the result of ``evaluate`` goes nowhere."""
    process = start(
        "translate",
        str(finished),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    process.stdout.close()
    err = process.communicate(b"5. Mai 1966\n" * 600, timeout=120)[1]
    assert process.returncode == 141
    assert err == b""
    process = start("evaluate", str(finished), stdout=subprocess.PIPE)
    process.stdout.close()
    process.stdout = None
    err = process.communicate(timeout=120)[1]
    assert process.returncode == 0
    assert err == b""
