"""A trained model from the folder of its run."""

from pathlib import Path
from typing import NamedTuple

import torch

from transformer_lib.nn import Transformer, TransformerConfig
from transformer_lib.tasks import load_task
from transformer_lib.tasks.task import Task
from transformer_lib.training.averaging import final_weights
from transformer_lib.training.checkpoint import CheckpointError, Refused, newest
from transformer_lib.training.device import pick_device
from transformer_lib.training.loop import CHECKPOINTS
from transformer_lib.training.presets import Run

__all__ = ["Trained", "load_trained"]


class Trained(NamedTuple):
    """What :func:`load_trained` found.

    Attributes
    ----------
    run
        What was trained, and how.
    task
        With the vocabularies of the checkpoint: its data are read when they are asked
        for, not before.
    model
        Ready to be used; dropout is off.
    step
        Number of updates behind the newest checkpoint.
    weights_of_steps
        Which checkpoints the weights are the mean of.
    refused
        Newer checkpoints that could not be used.
    """

    run: Run
    task: Task
    model: Transformer
    step: int
    weights_of_steps: list[int]
    refused: list[Refused]


def load_trained(folder: Path, device: str = "auto") -> Trained:
    """Load the weights that the end of a run evaluates, or those of now if it runs.

    Parameters
    ----------
    folder
        Of a run, finished or not.
    device
        As in :class:`~transformer_lib.training.settings.TrainingSettings`.

    Returns
    -------
    trained
        The mean of the last checkpoints or the best weights, if the settings say so,
        else the newest weights.

    Raises
    ------
    CheckpointError
        If the folder holds no checkpoint, or none that is intact.
    ValueError
        If there is no such device.
    """
    place = torch.device(pick_device(device))
    checkpoints = folder / CHECKPOINTS
    found, refused = newest(checkpoints)
    if found is None:
        why = "\n".join(reason for _, reason in refused) or "there is none"
        raise CheckpointError(f"{folder}: no checkpoint can be used:\n{why}")
    run = Run.from_dict(found.state["run"])
    task = load_task(found.state["task"]["name"], **found.state["task"]["options"])
    task.set_vocabularies(found.state["vocabularies"])
    weights, steps = final_weights(checkpoints, found, run.settings)
    model = Transformer(TransformerConfig(**found.state["config"]))
    model.load_state_dict(weights)
    model.to(place).eval()
    return Trained(run, task, model, found.step, steps, refused)
