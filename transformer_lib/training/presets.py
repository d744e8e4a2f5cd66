"""What a run is, and runs to begin with."""

import dataclasses
import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformer_lib.nn import TransformerConfig
from transformer_lib.tasks.task import Task
from transformer_lib.training.settings import TrainingSettings, check_known

__all__ = ["PRESETS", "Run", "preset"]

_OF_THE_TASK = ("vocab_size", "src_vocab_size", "tgt_vocab_size", "max_len", "pad_id")
_MODEL = [
    field.name
    for field in dataclasses.fields(TransformerConfig)
    if field.name not in _OF_THE_TASK
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """A task, a model for it, and how to train it; all that a file has to say.

    Parameters
    ----------
    task
        Name of a task, for :func:`transformer_lib.tasks.load_task`.
    task_options
        Its options.
    model
        Values of :class:`~transformer_lib.nn.TransformerConfig` that differ from its
        defaults. Sizes of vocabularies, the longest sentence and the padding are the
        task's (see :meth:`config`).
    settings
        How to train.

    Raises
    ------
    TypeError, ValueError
        If a value cannot be used; the message names it.

    Examples
    --------
    >>> run = preset("dates", "tiny")
    >>> run.task, run.model["d_model"]
    ('dates', 64)
    >>> Run.from_toml(run.to_toml()) == run
    True
    """

    task: str
    settings: TrainingSettings
    task_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    model: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.task, str) or not self.task:
            raise TypeError(f"task: got {self.task!r}, wanted a name")
        for name in ("task_options", "model"):
            if not isinstance(getattr(self, name), Mapping):
                raise TypeError(
                    f"{name}: got {getattr(self, name)!r}, wanted names with values"
                )
        for name in self.model:
            if name in _OF_THE_TASK:
                raise ValueError(f"model: {name!r} is decided by the task")
        check_known("model", self.model, _MODEL)
        TransformerConfig(vocab_size=4, **self.model)

    def config(self, task: Task) -> TransformerConfig:
        """Give the model's configuration, completed by the task.

        Parameters
        ----------
        task
            The run's.

        Returns
        -------
        config
            One vocabulary if both sides share one, else two.
        """
        source, target = task.source_vocabulary, task.target_vocabulary
        sizes: dict[str, Any] = (
            {"vocab_size": len(source)}
            if source is target
            else {"src_vocab_size": len(source), "tgt_vocab_size": len(target)}
        )
        return TransformerConfig(
            **sizes, max_len=task.max_len, pad_id=source.pad_id, **self.model
        )

    def changed(self, **settings: Any) -> "Run":
        """Give the same run with other training settings.

        Examples
        --------
        >>> preset("dates", "tiny").changed(seed=3).settings.seed
        3
        """
        values = {**self.settings.to_dict(), **settings}
        return dataclasses.replace(self, settings=TrainingSettings.from_dict(values))

    def to_dict(self) -> dict[str, Any]:
        """All values, for JSON; the way back is :meth:`from_dict`."""
        return {
            "task": {"name": self.task, **self.task_options},
            "model": dict(self.model),
            "training": self.settings.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Run":
        """Make a run of three tables, ``task``, ``model`` and ``training``.

        Parameters
        ----------
        values
            ``task`` holds ``name`` and the task's options; ``model`` may be missing.

        Returns
        -------
        run
            Checked.

        Raises
        ------
        TypeError, ValueError
            If a name is unknown or missing, or a value cannot be used.
        """
        check_known("run", values, ["task", "model", "training"])
        for name in values:
            if not isinstance(values[name], Mapping):
                raise TypeError(f"{name}: got {values[name]!r}, wanted a table")
        task = dict(values.get("task", {}))
        if "name" not in task:
            raise ValueError("task: 'name' is missing")
        return cls(
            task=task.pop("name"),
            task_options=task,
            model=dict(values.get("model", {})),
            settings=TrainingSettings.from_dict(values.get("training", {})),
        )

    def to_toml(self) -> str:
        """Write it as TOML; what is ``None`` is left out, since TOML has no word for it.

        Examples
        --------
        >>> settings = TrainingSettings(steps=9, max_tokens=64, lr=1e-3)
        >>> print(Run(task="dates", settings=settings).to_toml()[:33])
        [task]
        name = "dates"
        <BLANKLINE>
        [training]
        """
        tables = []
        for name, table in self.to_dict().items():
            lines = [f"{k} = {_toml(v)}" for k, v in table.items() if v is not None]
            if lines:
                tables.append("\n".join([f"[{name}]", *lines]))
        return "\n\n".join(tables) + "\n"

    @classmethod
    def from_toml(cls, text: str) -> "Run":
        """Read what :meth:`to_toml` wrote, or somebody by hand.

        Parameters
        ----------
        text
            TOML with the tables of :meth:`from_dict`.

        Returns
        -------
        run
            Checked.

        Raises
        ------
        TypeError, ValueError
            As :meth:`from_dict`, or if it is no TOML.
        RuntimeError
            With Python 3.10, which cannot read TOML.
        """
        return cls.from_dict(read_toml(text))

    @classmethod
    def from_file(cls, path: Path) -> "Run":
        """Read a TOML file; see :meth:`from_toml`."""
        return cls.from_toml(path.read_text(encoding="utf-8"))


def read_toml(text: str) -> dict[str, Any]:
    """Read TOML.

    Raises
    ------
    ValueError
        If it is none.
    RuntimeError
        With Python 3.10, which cannot read it.
    """
    try:
        import tomllib
    except ModuleNotFoundError:
        raise RuntimeError(
            "a file of settings is TOML, which Python reads from 3.11 on; this is "
            + platform.python_version()
        ) from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not TOML: {error}") from None


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(str(k))} = {_toml(v)}" for k, v in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    text = json.dumps(value, ensure_ascii=False)  # strings, whole numbers, booleans
    return text.replace("\x7f", "\\u007f")


# --- runs to begin with ---------------------------------------------------------------

_SMALL_MODEL = {
    "d_model": 64,
    "num_heads": 4,
    "d_ff": 256,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "dropout": 0.0,
    "norm_first": True,
}

_MULTI30K_TINY = {
    "d_model": 128,
    "num_heads": 4,
    "d_ff": 256,
    "num_encoder_layers": 4,
    "num_decoder_layers": 4,
    "dropout": 0.3,
}

PRESETS: dict[str, dict[str, Run]] = {
    "dates": {
        "tiny": Run(
            task="dates",
            model=_SMALL_MODEL,
            settings=TrainingSettings(
                steps=1200,
                max_tokens=1536,
                lr=3e-3,
                warmup=120,
                validate_every=150,
                validation_pairs=200,
                checkpoint_every=300,
            ),
        ),
    },
    "number_words": {
        "tiny": Run(
            task="number_words",
            model=_SMALL_MODEL,
            settings=TrainingSettings(
                steps=1200,
                max_tokens=1024,
                lr=3e-3,
                warmup=120,
                validate_every=150,
                validation_pairs=200,
                checkpoint_every=300,
            ),
        ),
    },
    "multi30k": {
        "cpu": Run(
            task="multi30k",
            task_options={"vocab_size": 4000},
            model={
                "d_model": 128,
                "num_heads": 4,
                "d_ff": 512,
                "num_encoder_layers": 2,
                "num_decoder_layers": 2,
                "dropout": 0.1,
                "norm_first": True,
            },
            settings=TrainingSettings(
                steps=2500,
                max_tokens=1500,
                lr=3e-3,
                warmup=250,
                validate_every=500,
                validation_pairs=200,
                checkpoint_every=100,
                keep=3,
                average=3,
                beam_size=4,
            ),
        ),
        "tiny": Run(
            task="multi30k",
            task_options={"vocab_size": 9700, "variant": "tok"},
            model=_MULTI30K_TINY,
            settings=TrainingSettings(
                steps=8000,
                max_tokens=4096,
                lr=5e-3,
                schedule="inverse_sqrt",
                warmup=2000,
                validate_every=500,
                checkpoint_every=250,
                keep=10,
                average=10,
                beam_size=5,
            ),
        ),
        "small": Run(
            task="multi30k",
            task_options={"vocab_size": 9700},
            model={
                "d_model": 256,
                "num_heads": 4,
                "d_ff": 1024,
                "num_encoder_layers": 3,
                "num_decoder_layers": 3,
                "dropout": 0.3,
                "norm_first": True,
            },
            settings=TrainingSettings(
                steps=4000,
                max_tokens=8192,
                lr=2e-3,
                warmup=400,
                validate_every=500,
                checkpoint_every=250,
                average=5,
                beam_size=5,
            ),
        ),
        "base": Run(
            task="multi30k",
            task_options={"vocab_size": 9700},
            model={"dropout": 0.3},
            settings=TrainingSettings(
                steps=4000,
                max_tokens=16_384,
                lr=7e-4,
                schedule="inverse_sqrt",
                warmup=1000,
                validate_every=500,
                checkpoint_every=250,
                average=5,
                beam_size=5,
            ),
        ),
    },
}
"""Task -> name -> run.

``dates`` "tiny" and ``multi30k`` "cpu" were run to the end; ``number_words`` "tiny" is
the same model, not run yet. ``multi30k`` "tiny" follows
Wu et al. 2021; "small" and "base", the model of 2017, are for GPUs: first guesses, which
nobody has run yet.
"""


def preset(task: str, name: str = "tiny") -> Run:
    """Look up a run.

    Parameters
    ----------
    task, name
        Keys of :data:`PRESETS`.

    Returns
    -------
    run
        To be used as it is or :meth:`changed <Run.changed>`.

    Raises
    ------
    ValueError
        If there is no such preset; the message lists those that there are.

    Examples
    --------
    >>> preset("dates").settings.schedule
    'cosine'
    >>> preset("dates", "huge")
    Traceback (most recent call last):
    ...
    ValueError: preset: got 'huge' for 'dates', wanted one of tiny
    """
    if task not in PRESETS:
        raise ValueError(f"task: got {task!r}, wanted one of {', '.join(PRESETS)}")
    if name not in PRESETS[task]:
        raise ValueError(
            f"preset: got {name!r} for {task!r}, wanted one of "
            + ", ".join(PRESETS[task])
        )
    return PRESETS[task][name]
