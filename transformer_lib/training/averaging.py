"""The weights that are evaluated in the end: the mean of several, or some alone."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from transformer_lib.training.checkpoint import Checkpoint, load, steps_in
from transformer_lib.training.settings import TrainingSettings

__all__ = ["average_weights", "final_weights", "on_schedule"]


def average_weights(
    many: Iterable[Mapping[str, Float[Tensor, "..."]]],
) -> dict[str, Tensor]:
    """Mean of several models' weights.

    The last checkpoints of a run lie around a minimum; their mean is nearer to it than
    any of them.

    Parameters
    ----------
    many
        At least one, all with the same names and shapes.

    Returns
    -------
    mean
        Summed up in float64, in the precision of the first.

    Raises
    ------
    ValueError
        If there is none, or names or shapes differ.

    References
    ----------
    Vaswani et al. 2017, *Attention Is All You Need*, section 6.1 (the last 5 of the
    base model, 20 of the big one).

    Examples
    --------
    >>> average_weights([{"w": torch.tensor([1.0])}, {"w": torch.tensor([2.0])}])
    {'w': tensor([1.5000])}
    """
    total: dict[str, Tensor] = {}
    kinds: dict[str, torch.dtype] = {}
    count = 0
    for weights in many:
        if not count:
            kinds = {name: tensor.dtype for name, tensor in weights.items()}
            total = {name: torch.zeros_like(t).double() for name, t in weights.items()}
        shapes = {name: tensor.shape for name, tensor in weights.items()}
        if shapes != {name: tensor.shape for name, tensor in total.items()}:
            raise ValueError(f"many: number {count} is not of the same model as 0")
        for name, tensor in weights.items():
            total[name] += tensor
        count += 1
    if not count:
        raise ValueError("many: got no weights, wanted at least one model's")
    return {name: (whole / count).to(kinds[name]) for name, whole in total.items()}


def on_schedule(steps: Iterable[int], every: int, last: int | None) -> list[int]:
    """Keep the steps at which the settings ask for a checkpoint.

    A checkpoint that was written because of SIGTERM lies anywhere; if it counted, a run
    that was stopped on the way would end in another mean than one that was not.

    Parameters
    ----------
    steps
        Of checkpoints.
    every
        ``checkpoint_every``; 0 is only the last.
    last
        Step at which training ended; ``None`` if it goes on.

    Returns
    -------
    steps
        Those on schedule, in their order.

    Examples
    --------
    >>> on_schedule([300, 450, 600, 700], every=300, last=700)
    [300, 600, 700]
    """
    return [step for step in steps if (every > 0 and step % every == 0) or step == last]


def final_weights(
    folder: Path, newest: Checkpoint, settings: TrainingSettings
) -> tuple[dict[str, Tensor], list[int]]:
    """Weights to evaluate after the updates behind a checkpoint.

    Parameters
    ----------
    folder
        Where it and the older ones lie.
    newest
        The last that counts.
    settings
        ``average``, ``patience``, ``checkpoint_every``.

    Returns
    -------
    weights
        The best ones with ``patience``, else the mean of the last ``average``.
    steps
        Whose they are.

    Raises
    ------
    CheckpointError
        If an older one that counts is damaged.
    """
    if settings.patience and newest.tensors.get("best"):
        return newest.tensors["best"], [newest.state["best"]["step"]]
    there = [step for step in steps_in(folder) if step < newest.step]
    older = on_schedule(there, settings.checkpoint_every, None)
    used = [*older, newest.step][-settings.average :]
    if used == [newest.step]:
        return newest.tensors["model"], used
    paths = [folder / f"step-{step:08d}" for step in used]
    return average_weights(load(path).tensors["model"] for path in paths), used
