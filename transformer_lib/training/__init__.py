"""Training: loss, schedule, loop, checkpoints, several GPUs, the command line.

A module is loaded when one of its names is first used: ``--help`` need not wait for
torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformer_lib.training.averaging import average_weights
    from transformer_lib.training.checkpoint import CheckpointError
    from transformer_lib.training.distributed import PartnerLost, World, loss_weight
    from transformer_lib.training.evaluation import Evaluation, evaluate, translate
    from transformer_lib.training.interruption import TrainingInterrupted
    from transformer_lib.training.log import read_metrics
    from transformer_lib.training.loop import (
        Result,
        Trainer,
        TrainerView,
        TrainingStopped,
    )
    from transformer_lib.training.optimizer import (
        MasterAdamW,
        adamw,
    )
    from transformer_lib.training.presets import PRESETS, Run, preset
    from transformer_lib.training.schedule import learning_rate
    from transformer_lib.training.settings import TrainingSettings
    from transformer_lib.training.trained import Trained, load_trained

__all__ = [
    "PRESETS",
    "CheckpointError",
    "Evaluation",
    "MasterAdamW",
    "PartnerLost",
    "Result",
    "Run",
    "Trained",
    "Trainer",
    "TrainerView",
    "TrainingInterrupted",
    "TrainingSettings",
    "TrainingStopped",
    "World",
    "adamw",
    "average_weights",
    "evaluate",
    "learning_rate",
    "load_trained",
    "loss_weight",
    "preset",
    "read_metrics",
    "translate",
]

_MODULES = (
    "averaging",
    "checkpoint",
    "distributed",
    "evaluation",
    "interruption",
    "log",
    "loop",
    "optimizer",
    "presets",
    "schedule",
    "settings",
    "trained",
)


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in _MODULES:
            found = import_module(f"{__name__}.{module}")
            if name in found.__all__:
                return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
