"""The recorded run that the widget *Training* plays: answers and attention on the way."""

import json
from collections.abc import Sequence
from datetime import date
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int

from transformer_lib.decoding import greedy
from transformer_lib.decoding.step import evaluating
from transformer_lib.nn import Transformer
from transformer_lib.tasks.dates import WRITTEN_FORMS, DatesTask, write_date
from transformer_lib.training.evaluation import evaluate
from transformer_lib.training.loop import Trainer, TrainerView
from transformer_lib.training.presets import Run, preset

COMMAND = "python -m transformer_lib.experiments.training --widget"

END, NOTHING = ".", "_"
"""Stand for the end, and for padding and start, in what was written."""

ROWS = 11
"""Tokens to write at most: the ten of a date and the end."""

EXAMPLES = (
    (date(1956, 7, 26), 7),
    (date(1915, 6, 20), 3),
    (date(2017, 3, 26), 8),
    (date(1994, 1, 17), 13),
    (date(1982, 10, 3), 15),
)
"""Dates of the test split, and which of the written forms each is shown in."""

SNAPSHOTS = 25
EVERY = 20
"""Updates between two points of the curves; snapshots are taken at some of them."""


_SAFE = (
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    "!#$%()*+,-./:;=?@[]^_{|}~"
)
_RUNS = 26
_WEIGHTS = _SAFE[:-_RUNS]
CODE = (
    _WEIGHTS
    + "".join(chr(0x100 + k) for k in range(101 - len(_WEIGHTS)))
    + _SAFE[-_RUNS:]
)
"""One character for each weight from 0 to 100 %, then for 2, 3, ... zeros in a row.

Neither JSON nor HTML writes one of them in another way, and what occurs often is ASCII.
"""


def encode_map(percents: Sequence[int]) -> str:
    """Write whole percents, one after the other, as a text.

    Examples
    --------
    >>> encode_map([0, 7, 0, 0, 0, 93])
    '07!Ġ'
    """
    text, zeros = "", 0
    for percent in [*percents, -1]:
        if percent == 0 and zeros <= _RUNS:
            zeros += 1
            continue
        if zeros:
            text += CODE[0] if zeros == 1 else CODE[99 + zeros]
        zeros = 1 if percent == 0 else 0
        if percent > 0:
            text += CODE[percent]
    return text


PAIRS = 500
"""Dates that each point of the curves is measured on."""


def snapshot_steps(steps: int, snapshots: int, every: int) -> list[int]:
    """Choose steps whose square roots lie evenly, since early steps change more.

    Parameters
    ----------
    steps
        Length of the run; first and last step are among the chosen ones.
    snapshots
        How many, at most: those that fall together count once.
    every
        All but the last are multiples of it.

    Examples
    --------
    >>> snapshot_steps(1200, 7, 10)
    [0, 30, 130, 300, 530, 830, 1200]
    """
    shares = [(i / (snapshots - 1)) ** 2 for i in range(snapshots)]
    inside = {min(steps, every * round(steps * share / every)) for share in shares}
    return sorted({*inside, steps})


def whole_percents(
    weights: Float[np.ndarray, "rows columns"],
) -> Int[np.ndarray, "rows columns"]:
    """Round shares to whole percents so that each row still sums to 100.

    The largest remainders are rounded up, as votes become seats.

    Examples
    --------
    >>> whole_percents(np.array([[0.335, 0.335, 0.33]]))
    array([[34, 33, 33]])
    """
    shares = 100.0 * weights.astype(np.float64)
    shares *= 100.0 / shares.sum(axis=1, keepdims=True)
    rounded = np.floor(shares).astype(np.int64)
    for row, share in zip(rounded, shares, strict=True):
        missing = 100 - int(row.sum())
        row[np.argsort(row - share, kind="stable")[:missing]] += 1
    return rounded


def look(model: Transformer, task: DatesTask, source: str) -> tuple[str, list[str]]:
    """Let the model write one date, and note where it looks.

    Returns
    -------
    written
        One character per token, up to eleven; the end is a full stop, and a token that
        is no character, as an untrained model may choose, an underscore.
    maps
        Cross-attention in whole percents, encoded, layer by layer and in each head by
        head; one row for each token that was written, in the order of writing.
    """
    vocabulary = task.target_vocabulary
    source_ids = torch.tensor([task.encode_source(source)])
    ids = greedy(
        model,
        source_ids,
        bos_id=vocabulary.bos_id,
        eos_id=vocabulary.eos_id,
        max_len=ROWS,
    )
    numbers = ids[0].tolist()
    special = {vocabulary.eos_id: END, vocabulary.bos_id: NOTHING}
    special[vocabulary.pad_id] = NOTHING
    read = torch.tensor([[vocabulary.bos_id, *numbers[:-1]]])
    with evaluating(model):
        cross = model.attention_maps(source_ids, read).cross
    heads = [head.numpy() for layer in cross for head in layer[0]]
    maps = [encode_map(whole_percents(head).ravel().tolist()) for head in heads]
    written = (special.get(i) or vocabulary.decode([i]) for i in numbers)
    return "".join(written), maps


def widget_run(seed: int, steps: int | None, every: int, pairs: int) -> Run:
    """Give the chapter's run, or a shorter one, with more looks on the way.

    Parameters
    ----------
    seed, steps, every, pairs
        See :func:`widget_record`.

    Returns
    -------
    run
        On the CPU, with one thread.
    """
    run = preset("dates", "tiny")
    length = run.settings.steps if steps is None else steps
    return run.changed(
        steps=length,
        warmup=min(run.settings.warmup, length // 2),
        seed=seed,
        device="cpu",
        validate_every=every,
        validation_pairs=pairs,
        checkpoint_every=0,
        threads=1,
    )


def widget_record(
    seed: int = 0,
    steps: int | None = None,
    task: DatesTask | None = None,
    snapshots: int = SNAPSHOTS,
    every: int = EVERY,
    pairs: int = PAIRS,
) -> dict[str, Any]:
    """Train the chapter's model once more and look at it on the way.

    Parameters
    ----------
    seed
        Of the run.
    steps, task
        Of a shorter run; ``None`` is the preset's.
    snapshots, every
        See :func:`snapshot_steps`.
    pairs
        Dates that each point of the curves is measured on.

    Returns
    -------
    record
        As ``widgets/data/training.json`` holds it.
    """
    run = widget_run(seed, steps, every, pairs)
    length = run.settings.steps
    task = DatesTask(**run.task_options) if task is None else task
    chosen = snapshot_steps(length, snapshots, every)
    texts = [
        (write_date(day, WRITTEN_FORMS[form]), day, form) for day, form in EXAMPLES
    ]
    seen: list[list[tuple[str, list[str]]]] = []
    curve: dict[str, list[float]] = {"steps": [], "loss": [], "exact_match": []}

    def note(view: TrainerView) -> None:
        curve["steps"].append(view.step)
        curve["loss"].append(round(view.evaluation.loss, 4))
        curve["exact_match"].append(
            round(float(view.evaluation.scores["exact_match"]), 1)
        )
        if view.step in chosen:
            seen.append([look(view.model, task, text) for text, _, _ in texts])

    trainer = Trainer(run, task=task, progress=False, on_validation=note)
    note(_before(trainer, pairs))
    trainer.train()
    return {
        "command": COMMAND,
        "seed": seed,
        "pairs": min(pairs, len(task.pairs("validation"))),
        "parameters": trainer.model.num_parameters(),
        "layers": trainer.config.num_decoder_layers,
        "heads": trainer.config.num_heads,
        "code": CODE,
        "curve": curve,
        "steps": chosen,
        "examples": [
            {
                "source": text,
                "target": day.isoformat(),
                "language": WRITTEN_FORMS[form].locale,
                "written": [moment[i][0] for moment in seen],
                "maps": [moment[i][1] for moment in seen],
            }
            for i, (text, day, form) in enumerate(texts)
        ],
    }


def _before(trainer: Trainer, pairs: int) -> TrainerView:
    """What a callback would see before the first update."""
    evaluation = evaluate(trainer.model, trainer.task, "validation", limit=pairs)
    return TrainerView(0, trainer.model, evaluation, {})


def write_widget_record(path: Path | None = None, **arguments: Any) -> Path:
    """Write the record to where the widget reads it, or elsewhere."""
    if path is None:
        folder = Path(str(resources.files("transformer_lib.widgets")))
        path = folder / "data" / "training.json"
    record = widget_record(**arguments)
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    path.write_text(text + "\n", encoding="utf-8")
    return path
