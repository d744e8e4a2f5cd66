"""The command: ``python -m transformer_lib.training``.

Nothing here imports torch before a command needs it, so that ``--help`` answers at once.
"""

import argparse
import contextlib
import dataclasses
import difflib
import errno
import inspect
import json
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

if TYPE_CHECKING:
    from transformer_lib.tasks.task import Task
    from transformer_lib.training.loop import Result, Trainer, TrainerView
    from transformer_lib.training.presets import Run
    from transformer_lib.training.trained import Trained

__all__ = ["main", "program"]

NAME = "python -m transformer_lib.training"
COMMANDS = ("train", "resume", "evaluate", "translate")
TABLES = ("training", "model", "task")
PATIENCE = 1800.0  # seconds for other processes
LINGER = 3.0  # seconds that a survivor waits, so that torchrun sees the first cause
TOGETHER = 256  # lines that are read and answered at a time

DONE, UNEXPECTED, USAGE, MISSING, CHECKPOINT = range(5)
NOT_A_NUMBER, MEMORY, DISK, PARTNER = range(5, 9)
INTERRUPTED, PIPE, TERMINATED = (128 + number for number in (2, 13, 15))

ABOUT = """\
Train an encoder-decoder Transformer, and use it.

commands (train, if none is named):
  train      from a preset, from a file of settings, or from both
  resume     go on with a run that was stopped, was killed, or ran out of space
  evaluate   score a trained model on a split of its task
  translate  let a trained model answer, one text per line

`COMMAND --help` tells the options of one.
"""

EXAMPLES = """\
examples:
  # a minute or two on two processor cores; nothing is downloaded
  {name} --task dates --preset tiny --device auto --out runs/dates
  {name} evaluate runs/dates --split test --beam-size 5
  {name} translate runs/dates "July 3, 1914" "5. Mai 1966"
  echo "2041년 12월 9일" | {name} translate runs/dates

  # stopped with Ctrl-C, or killed: go on where it was
  {name} resume runs/dates

  # other values: see them all, change some here, or keep them in a file
  {name} --task dates --preset tiny --show > run.toml
  {name} --config run.toml --set lr=1e-3 --set model.d_model=32 --out runs/small

  # two processes that share each update's batches, on a GPU each or on the CPU
  python -m torch.distributed.run --standalone --nproc-per-node 2 \\
    -m transformer_lib.training --task dates --preset tiny --out runs/both
"""

FILES = """\
files in the folder of a run:
  metrics.jsonl   one line per log entry; the last one is the result
  checkpoints/    the newest ones; each is written whole or not at all
  run.toml        all values, for --config
"""

CODES = """\
exit codes:
    0  done
    1  a fault of this program; its traceback is for the report
    2  the request cannot be met: an unknown name, an impossible value, a folder that
       cannot be used, a text that the model cannot read
    3  data or a package are missing
    4  no checkpoint can be used: damaged, or of another run
    5  the loss is no number any more; the last good checkpoint is kept
    6  out of memory; the message says what to lower
    7  the disk is full or fails; what was written before is intact
    8  another process of the run died (torchrun itself then ends with 1)
  130  stopped by Ctrl-C   (these two after a checkpoint, if training had begun:
  143  stopped by SIGTERM   resume goes on)
"""

TRAINING = """\
Values come from a preset, then from --config, then from --set; later ones win. A key is
TABLE.KEY with the tables training, model and task; without a table the first of these
that has the key is meant. --show prints all keys of training, and what the preset says.

presets:
{presets}
"""


class CommandError(Exception):
    """Ends the program with a message and a code, without a traceback."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code


class Terminated(BaseException):
    """SIGTERM outside of the training loop, which hears it by itself."""


def program() -> NoReturn:
    """Run the command and end the process with its code."""
    # Before torch, which would write there: a closed stream's number is given anew.
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    code = main()
    for stream in (sys.stdout, sys.stderr):
        _flush(stream)
    if code and _processes() > 1:
        os._exit(code)  # a farewell to processes that are gone could take for ever
    sys.exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    arguments
        ``None`` takes those of the process.

    Returns
    -------
    code
        See ``--help``.

    Examples
    --------
    >>> main(["--task", "dates", "--set", "steps=30", "--show"])  # doctest: +ELLIPSIS
    [task]
    name = "dates"
    ...
    0
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with _hearing_sigterm(), _plain_warnings():
            return _run(words)
    except SystemExit as end:  # of argparse
        return end.code if isinstance(end.code, int) else USAGE
    except BaseException as error:
        return _report(error, "--traceback" in words)


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_help(), end="", file=sys.stdout if words else sys.stderr)
        return DONE if words else USAGE
    if words[0].startswith("-"):
        words = ["train", *words]
    command = _choose("command", words[0], COMMANDS)
    options = _parser(command).parse_args(words[1:])
    if command in ("evaluate", "translate") and _processes() > 1:
        raise CommandError(f"{command}: got {_processes()} processes, wanted one")
    actions = {
        "train": _train,
        "resume": _resume,
        "evaluate": _evaluate,
        "translate": _translate,
    }
    return actions[command](options)


# --- what can be asked ----------------------------------------------------------------


def _help() -> str:
    usage = f"usage: {NAME} [COMMAND] OPTIONS\n"
    return "\n".join([usage, ABOUT, EXAMPLES.format(name=NAME), FILES, CODES])


def _parser(command: str) -> argparse.ArgumentParser:
    about = {
        "train": "Train a model.",
        "resume": "Go on from the newest checkpoint that is intact, with the values "
        "that the run had.",
        "evaluate": "Score a trained model; the result is one line of JSON.",
        "translate": "Answer each text, or each line of the standard input, with one "
        "line.",
    }
    parser = argparse.ArgumentParser(
        prog=f"{NAME} {command}",
        description=about[command],
        epilog=TRAINING.format(presets=_PRESETS) if command == "train" else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    if command == "train":
        parser.add_argument("--task", metavar="NAME", help=", ".join(_TASKS))
        parser.add_argument(
            "--preset", metavar="NAME", help="values that work (default: tiny)"
        )
        parser.add_argument(
            "--config", metavar="FILE", type=Path, help="TOML, as --show prints it"
        )
        parser.add_argument(
            "--out",
            metavar="FOLDER",
            type=Path,
            help="where log and checkpoints go (default: runs/TASK)",
        )
        parser.add_argument(
            "--show", action="store_true", help="print all values, and train nothing"
        )
    else:
        parser.add_argument("run", metavar="RUN", type=Path, help="folder of a run")
    if command == "translate":
        parser.add_argument(
            "text",
            metavar="TEXT",
            nargs="*",
            help="what to translate; the standard input, if there is none",
        )
    if command == "evaluate":
        parser.add_argument(
            "--split", metavar="NAME", help="default: the first test split"
        )
    if command in ("evaluate", "translate"):
        parser.add_argument(
            "--beam-size",
            metavar="N",
            type=int,
            help="1 is greedy (default: as the run says)",
        )
    else:
        parser.add_argument(
            "--set",
            metavar="KEY=VALUE",
            action="append",
            default=[],
            help="another value; may be given again",
        )
        parser.add_argument(
            "--timeout",
            metavar="SECONDS",
            type=float,
            default=PATIENCE,
            help="under torchrun: how long a process may be silent before it counts as "
            f"lost (default: {PATIENCE:g})",
        )
    parser.add_argument(
        "--device", metavar="NAME", help="auto (default), cpu, cuda, cuda:1, mps"
    )
    parser.add_argument(
        "--traceback", action="store_true", help="show where an error came from"
    )
    return parser


_TASKS = ("dates", "number_words", "multi30k")
_PRESETS = """\
  dates         tiny    written dates in three languages to ISO dates
  number_words  tiny    English number words to Korean numerals
  multi30k      tiny    English to German, the size of published results; for a GPU
                cpu     English to German; twenty minutes on one processor core
                small   English to German; for a GPU, a first guess, not run yet
                base    the model of 2017; for a GPU, a first guess, not run yet"""


def _choose(what: str, name: str, known: Sequence[str]) -> str:
    """Return a known name, or say which is closest."""
    if name in known:
        return name
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"perhaps {close[0]!r} is meant; " if close else ""
    raise CommandError(
        f"{what}: there is no {name!r}; {hint}known are {', '.join(known)}"
    )


# --- values ---------------------------------------------------------------------------


def _requested(options: argparse.Namespace) -> "Run":
    """Put together what preset, file and options say."""
    from transformer_lib.tasks import TASKS
    from transformer_lib.training.presets import PRESETS, Run, read_toml

    file: dict[str, Any] = {}
    if options.config is not None:
        try:
            file = read_toml(options.config.read_text(encoding="utf-8"))
        except (ValueError, RuntimeError, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise CommandError(f"config: {options.config}: {why}") from error
        for table, values in file.items():
            _choose(f"config: {options.config}", table, TABLES[::-1])
            if not isinstance(values, Mapping):
                raise CommandError(f"config: {table}: got {values!r}, wanted a table")

    named = file.get("task", {}).get("name")
    task = options.task or named
    if task is None:
        raise CommandError(
            f"task: got none, wanted --task NAME (one of {', '.join(TASKS)})"
        )
    _choose("task", str(task), list(TASKS))
    if named is not None and named != task:
        raise CommandError(
            f"task: got --task {task}, but {options.config} has {named!r}"
        )

    tables: dict[str, dict[str, Any]] = {name: {} for name in TABLES}
    if options.preset is not None or options.config is None:
        presets = PRESETS[task]
        default = "tiny" if "tiny" in presets else next(iter(presets))
        name = _choose("preset", options.preset or default, list(presets))
        tables.update(presets[name].to_dict())
    given: dict[str, dict[str, Any]] = {name: {} for name in TABLES}
    for table, values in file.items():
        given[table].update(values)
    for text in options.set:
        _assign(given, text, task)
    for table, values in given.items():
        tables[table] = {**tables[table], **values}
    tables["task"]["name"] = task
    if options.device is not None:
        tables["training"]["device"] = options.device
    if "warmup" not in given["training"]:
        _shorten_warmup(tables["training"], options.preset or "tiny", task)
    with _checked():
        return Run.from_dict(tables)


def _shorten_warmup(training: dict[str, Any], preset: str, task: str) -> None:
    """Let a preset's warm-up keep its share, if fewer steps are asked than it has."""
    from transformer_lib.training.presets import PRESETS

    steps, warmup = training.get("steps"), training.get("warmup")
    if type(steps) is not int or type(warmup) is not int or not 1 < steps <= warmup:
        return
    share = warmup / PRESETS[task][preset].settings.steps
    training["warmup"] = max(1, round(steps * share))
    _say(f"warmup: {training['warmup']}, as large a share of {steps} steps as before")


def _assign(tables: dict[str, dict[str, Any]], text: str, task: str) -> None:
    """Read one KEY=VALUE."""
    from transformer_lib.tasks import TASKS
    from transformer_lib.training.presets import _MODEL
    from transformer_lib.training.settings import TrainingSettings

    known = {
        "training": [field.name for field in dataclasses.fields(TrainingSettings)],
        "model": _MODEL,
        "task": list(inspect.signature(TASKS[task]).parameters),
    }
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise CommandError(f"--set: got {text!r}, wanted KEY=VALUE, say steps=500")
    table, point, name = key.rpartition(".")
    if point:
        _choose("--set", table, TABLES)
        _choose(f"--set: {table}", name, known[table])
    else:
        every = list(dict.fromkeys(name for table in TABLES for name in known[table]))
        _choose("--set", name, every)
        table = next(table for table in TABLES if name in known[table])
    tables[table][name] = _value(value)


def _value(text: str) -> Any:
    """Read a number, a truth value, a list, ``none``, or else a text.

    Examples
    --------
    >>> [_value(text) for text in ("20", "1e-3", "true", "[0.9, 0.98]", "none", "cpu")]
    [20, 0.001, True, [0.9, 0.98], None, 'cpu']
    """
    text = text.strip()
    words = {"none": None, "true": True, "false": False}
    if text.lower() in words:
        return words[text.lower()]
    for read in (int, float, json.loads):
        with contextlib.suppress(ValueError):
            return read(text)
    return text


@contextlib.contextmanager
def _checked() -> Iterator[None]:
    """What is wrong in here is wrong with the request."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise CommandError(str(error)) from error


# --- train, resume --------------------------------------------------------------------


def _train(options: argparse.Namespace) -> int:
    run = _requested(options)
    if options.show:
        print(run.to_toml(), end="")
        return DONE
    return _carry_out(run, options.out or Path("runs") / run.task, options, False)


def _resume(options: argparse.Namespace) -> int:
    from transformer_lib.training.loop import read_run

    run = read_run(options.run)
    given: dict[str, dict[str, Any]] = {name: {} for name in TABLES}
    for text in options.set:
        _assign(given, text, run.task)
    for table in ("model", "task"):
        if given[table]:
            raise CommandError(
                f"--set: got {table}.{next(iter(given[table]))}, but a run that goes on "
                "keeps its model and its task"
            )
    if options.device is not None:
        given["training"]["device"] = options.device
    with _checked():
        run = run.changed(**given["training"])
    return _carry_out(run, options.run, options, True)


def _carry_out(
    run: "Run", folder: Path, options: argparse.Namespace, resume: bool
) -> int:
    from transformer_lib.training.device import pick_device
    from transformer_lib.training.distributed import World
    from transformer_lib.training.loop import Trainer

    with _checked():
        world = World.from_environment(timeout=options.timeout)
        device = world.device(pick_device(run.settings.device))
    with contextlib.ExitStack() as stack:
        stack.enter_context(_saying_what_to_lower(run))
        stack.enter_context(world.join(device))
        if world.is_main:
            stack.enter_context(_alone_in(folder, resume))
        with world.first_one_first(), _checked():
            task = _load(run)
        with _checked():
            trainer = Trainer(
                run, folder, task=task, resume=resume, on_validation=_tell, world=world
            )
        _announce(trainer)
        result = trainer.train()
    if world.is_main:
        _print(_line(_outcome(result)))
    return DONE


def _load(run: "Run") -> "Task":
    """Make the task and read what training will need: better now than hours later."""
    from transformer_lib.tasks import load_task

    task = load_task(run.task, **run.task_options)
    for split in task.splits[:3]:
        pairs = task.pairs(split)
    task.vocabularies()
    if pairs:
        task.score([pairs[0].target], pairs[:1])
    return task


def _announce(trainer: "Trainer") -> None:
    if not trainer.world.is_main:
        return
    settings, done = trainer.settings, trainer.step
    parts = [
        f"{trainer.run.task}: {trainer.model.num_parameters():,} parameters",
        trainer.placement.describe(),
    ]
    if trainer.world.size > 1:
        parts.append(f"{trainer.world.size} processes")
    parts.append(
        f"{done} of {settings.steps} steps are done"
        if done
        else f"{settings.steps} steps"
    )
    _say(", ".join(parts) + f"; {trainer.folder}")


def _tell(view: "TrainerView") -> None:
    entry = view.entry
    scores = ", ".join(
        f"{name} {value:.2f}"
        for name, value in view.evaluation.scores.items()
        if isinstance(value, float)
    )
    losses = ", ".join(
        f"{name} none" if value is None else f"{name} {value:.3f}"
        for name, value in (
            ("loss", entry["loss"]),
            ("validation loss", entry["validation_loss"]),
        )
    )
    speed = f"{entry['tokens_per_second']:,.0f} tokens/s"
    _say(f"step {view.step}: {losses}, {scores}, {speed}")


def _outcome(result: "Result") -> dict[str, Any]:
    summary = result.summary
    return {
        "task": summary["task"],
        "split": summary["result"],
        **result.scores,
        "loss": summary["loss"],
        "step": result.steps,
        "seconds": summary["seconds"],
    }


@contextlib.contextmanager
def _alone_in(folder: Path, resume: bool) -> Iterator[None]:
    """Make the folder, and hold it: a second run in it is refused.

    The system gives the lock back when the process ends, however it ends. On Windows,
    and where the file system knows no locks, nothing is held.
    """
    made: list[Path] = []
    with contextlib.ExitStack() as stack:
        try:
            made = [path for path in (folder, *folder.parents) if not path.exists()]
            stack.callback(_remove_empty, made)
            folder.mkdir(parents=True, exist_ok=True)
            # It may be there and yet not be writable: a checkpoint would tell late.
            probe = folder / f".partial-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise CommandError(
                f"{folder}: it cannot be written to ({error.strerror})",
                DISK if _is_full(error) else USAGE,
            ) from error
        handle = _lock(folder)
        if handle is not None:
            stack.callback(os.close, handle)
        if not resume:
            _refuse_second_run(folder)
        yield


def _remove_empty(folders: list[Path]) -> None:
    with contextlib.suppress(OSError):  # what was written stays
        for folder in folders:
            folder.rmdir()


def _lock(folder: Path) -> int | None:
    try:
        import fcntl
    except ImportError:
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise CommandError(
            f"{folder}: another process is training in this folder"
        ) from error
    except OSError:
        pass
    return handle


def _refuse_second_run(folder: Path) -> None:
    if (folder / "metrics.jsonl").exists() or any(folder.glob("checkpoints/step-*")):
        raise CommandError(
            f"{folder}: there is a run in this folder already. To go on with it: "
            f"{NAME} resume {folder}. To train anew: --out with another folder"
        )


@contextlib.contextmanager
def _saying_what_to_lower(run: "Run") -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not _is_out_of_memory(error):
            raise
        settings = run.settings
        raise CommandError(
            f"out of memory ({_first_line(error)}). Lower max_tokens, now "
            f"{settings.max_tokens}: with --set max_tokens={settings.max_tokens // 2} "
            f"--set accumulate={settings.accumulate * 2} an update has as many tokens "
            "as before. If it came while the model was writing, lower beam_size, now "
            f"{settings.beam_size}. Else a smaller model: d_model, d_ff, layers. "
            "Batches are part of a run, so begin a new one, with another --out",
            MEMORY,
        ) from error


# --- evaluate, translate --------------------------------------------------------------


def _evaluate(options: argparse.Namespace) -> int:
    from transformer_lib.training.evaluation import evaluate

    trained = _load_trained(options)
    settings, task = trained.run.settings, trained.task
    split = options.split
    if split is None:
        split = next((s for s in task.splits[2:] if task.pairs(s)), task.splits[1])
    _choose("split", split, task.splits)
    beam_size = settings.beam_size if options.beam_size is None else options.beam_size
    with _checked(), _saying_a_smaller_beam(beam_size):
        found = evaluate(
            trained.model,
            task,
            split,
            beam_size=beam_size,
            length_penalty=settings.length_penalty,
            max_tokens=4 * settings.max_tokens,
        )
    outcome = {"task": task.name, "split": split, **found.scores, "loss": found.loss}
    _print(_line({**outcome, "step": trained.step, "beam_size": beam_size}))
    return DONE


def _translate(options: argparse.Namespace) -> int:
    trained = _load_trained(options)
    if options.text:
        return DONE if _answer(trained, options, 1, options.text) else USAGE
    if sys.stdin is None:
        raise CommandError("TEXT: got none, and no standard input")
    at_terminal = sys.stdin.isatty()
    if at_terminal:
        _say("one text per line; Ctrl-D ends")
    good, number = True, 1
    lines = _lines(sys.stdin)
    while texts := _take(lines, 1 if at_terminal else TOGETHER):
        good &= _answer(trained, options, number, texts)
        number += len(texts)
    return DONE if good else USAGE


def _take(lines: Iterator[str], count: int) -> list[str]:
    return [line for _, line in zip(range(count), lines, strict=False)]


def _lines(stream: Any) -> Iterator[str]:
    """Lines as text; what is not UTF-8 stays visible, and is refused by the model."""
    for number, line in enumerate(getattr(stream, "buffer", stream)):
        if isinstance(line, bytes):
            line = line.decode("utf-8", errors="surrogateescape")
        yield (line.removeprefix("\ufeff") if number == 0 else line).rstrip("\r\n")


def _answer(
    trained: "Trained", options: argparse.Namespace, first: int, texts: list[str]
) -> bool:
    """Print one line for each text: an empty one for those that cannot be read."""
    from transformer_lib.training.evaluation import translate

    settings = trained.run.settings
    beam_size = settings.beam_size if options.beam_size is None else options.beam_size
    asked: list[int] = []
    answers = [""] * len(texts)
    good = True
    for place, text in enumerate(texts):
        if not text.strip() and not options.text:
            continue  # an empty line stays one
        try:
            trained.task.encode_source(text)
            asked.append(place)
        except ValueError as error:
            good = False
            _say(f"error: text {first + place}: {str(error).removeprefix('text: ')}")
    with _checked(), _saying_a_smaller_beam(beam_size):
        written = translate(
            trained.model,
            trained.task,
            [texts[place] for place in asked],
            beam_size=beam_size,
            length_penalty=settings.length_penalty,
        )
    for place, answer in zip(asked, written, strict=True):
        answers[place] = answer
    print("\n".join(answers), flush=True)
    return good


def _load_trained(options: argparse.Namespace) -> "Trained":
    from transformer_lib.training.trained import load_trained

    with _checked():
        trained = load_trained(options.run, options.device or "auto")
    for _, reason in trained.refused:
        _say(f"warning: checkpoint passed over: {reason}")
    return trained


@contextlib.contextmanager
def _saying_a_smaller_beam(beam_size: int) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not _is_out_of_memory(error):
            raise
        raise CommandError(
            f"out of memory ({_first_line(error)}). Lower --beam-size, now {beam_size}, "
            "or take --device cpu",
            MEMORY,
        ) from error


# --- how it ends ----------------------------------------------------------------------


def _report(error: BaseException, show: bool) -> int:
    """Say what happened, and return the code for it."""
    found = _diagnose(error)
    if found is None or show:
        traceback.print_exception(error)
    if found is None:
        _say("error: this should not have happened; please report the lines above")
        return UNEXPECTED
    code, message = found
    if code == PIPE:
        _silence()
        return code
    if code == PARTNER:
        with contextlib.suppress(Terminated, KeyboardInterrupt), _hearing_sigterm():
            time.sleep(LINGER)
    calm = code in (INTERRUPTED, TERMINATED)
    message = message if calm else f"error: {message}"
    if _processes() > 1:
        rank = os.environ.get("RANK", "?")
        if calm and rank != "0":
            return code  # they all were stopped: one tells
        message = f"[process {rank}] {message}"
        _tell_torchrun(message)
    _say(message)
    return code


def _diagnose(error: BaseException) -> tuple[int, str] | None:
    """Code and message of an error that can be foreseen; ``None`` for others."""
    if isinstance(error, CommandError):
        return error.code, str(error)
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "stopped by Ctrl-C; what was written before is intact"
    if isinstance(error, Terminated):
        return TERMINATED, "stopped by SIGTERM; what was written before is intact"
    if isinstance(error, BrokenPipeError):
        return PIPE, ""
    if _is_out_of_memory(error):
        return MEMORY, f"out of memory ({_first_line(error)})"
    if isinstance(error, ModuleNotFoundError) and "pip install" in str(error):
        return MISSING, str(error)
    if isinstance(error, OSError):
        return _diagnose_file(error)
    if "torch" in sys.modules:
        return _diagnose_training(error)
    return None


def _diagnose_file(error: OSError) -> tuple[int, str]:
    place = "" if error.filename is None else f"{error.filename}: "
    message = f"{place}{error.strerror or error}"
    if _is_full(error):
        return DISK, f"{message}. Make room, then resume"
    names = "EACCES EPERM ENOENT ENOTDIR EISDIR EEXIST EROFS ENAMETOOLONG ELOOP"
    unusable = [getattr(errno, name) for name in names.split()]
    return (USAGE if error.errno in unusable else DISK), message


def _diagnose_training(error: BaseException) -> tuple[int, str] | None:
    from transformer_lib.tasks.download import MissingDataError
    from transformer_lib.training.checkpoint import CheckpointError
    from transformer_lib.training.distributed import PartnerLost
    from transformer_lib.training.interruption import TrainingInterrupted
    from transformer_lib.training.loop import TrainingStopped

    if isinstance(error, TrainingInterrupted):
        return 128 + error.signal_number, str(error)
    codes: dict[type[Exception], int] = {
        MissingDataError: MISSING,
        CheckpointError: CHECKPOINT,
        TrainingStopped: NOT_A_NUMBER,
        PartnerLost: PARTNER,
    }
    for kind, code in codes.items():
        if isinstance(error, kind):
            return code, str(error)
    return None


def _is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    text = str(error).lower()
    signs = [
        "out of memory",
        "can't allocate memory",
        "cannot allocate memory",
        "not enough memory",
        "alloc_failed",
    ]
    return isinstance(error, RuntimeError | OSError) and any(s in text for s in signs)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def _tell_torchrun(message: str) -> None:
    """Let torchrun's own summary show the message, and not that it has none."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path is None:
        return
    extra = {"py_callstack": message, "timestamp": str(int(time.time()))}
    told = {"message": {"message": message, "extraInfo": extra}}
    with contextlib.suppress(OSError):
        Path(path).write_text(json.dumps(told), encoding="utf-8")


# --- speaking -------------------------------------------------------------------------


def _processes() -> int:
    size = os.environ.get("WORLD_SIZE", "1")
    return int(size) if size.isdecimal() else 1


def _line(values: Mapping[str, Any]) -> str:
    rounded = {k: round(v, 4) if isinstance(v, float) else v for k, v in values.items()}
    return json.dumps(rounded, ensure_ascii=False)


def _print(line: str) -> None:
    """Print the result; nobody listening is no reason to fail after the work is done."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        _silence()


def _say(text: str) -> None:
    """Tell something beside the result."""
    bar = sys.modules.get("tqdm")
    with contextlib.suppress(OSError, ValueError):
        if bar is not None:
            bar.tqdm.write(text, file=sys.stderr)
        else:
            print(text, file=sys.stderr, flush=True)


def _flush(stream: TextIO) -> None:
    try:
        stream.flush()
    except BrokenPipeError:
        _silence()
    except (OSError, ValueError):
        pass


def _silence() -> None:
    """Send what is still to be printed nowhere, or Python complains in leaving."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print warnings as sentences, once, in the first process."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if os.environ.get("RANK", "0") == "0":
            _say(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextlib.contextmanager
def _hearing_sigterm() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that what is held is given back."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Terminated

    before = signal.getsignal(signal.SIGTERM)
    here = threading.current_thread() is threading.main_thread()
    if not here or before is None or before == signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
