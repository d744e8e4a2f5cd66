"""Where a model is trained and in which precision: what ``"auto"`` comes to."""

from typing import NamedTuple

import torch

from transformer_lib.training.settings import TrainingSettings

__all__ = ["Placement", "choose_placement", "pick_device"]


class Placement(NamedTuple):
    """What was chosen.

    Attributes
    ----------
    device
        Of model and batches.
    autocast
        Precision of matrix products; ``None`` leaves them in float32.
    compiled
        Whether the loss goes through ``torch.compile``.
    """

    device: torch.device
    autocast: torch.dtype | None
    compiled: bool

    @property
    def scales_loss(self) -> bool:
        """Whether small gradients would vanish: float16 has no small numbers."""
        return self.autocast == torch.float16

    def describe(self) -> str:
        """In words, for a log.

        Examples
        --------
        >>> Placement(torch.device("cpu"), None, False).describe()
        'cpu, fp32'
        """
        names = {torch.bfloat16: "bf16", torch.float16: "fp16"}
        precision = "fp32" if self.autocast is None else names[self.autocast]
        return f"{self.device}, {precision}" + (", compiled" if self.compiled else "")


def pick_device(name: str) -> str:
    """Turn ``"auto"`` into the best device there is, and check any other name.

    Parameters
    ----------
    name
        ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``.

    Returns
    -------
    name
        Of a device that is there.

    Raises
    ------
    ValueError
        If it is not.

    Examples
    --------
    >>> pick_device("cpu")
    'cpu'
    """
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if name == "auto":
        return "cuda" if cuda else "mps" if mps else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and (
        not cuda or (device.index or 0) >= torch.cuda.device_count()
    ):
        raise ValueError(
            f"device: got {name!r}, but torch sees {torch.cuda.device_count()} CUDA "
            "devices here"
        )
    if device.type == "mps" and not mps:
        raise ValueError(f"device: got {name!r}, but there is no MPS device here")
    return name


def choose_placement(settings: TrainingSettings, device: torch.device) -> Placement:
    """Choose precision and compilation for a device.

    Parameters
    ----------
    settings
        ``precision`` and ``compile``.
    device
        See :func:`pick_device`.

    Returns
    -------
    placement
        With ``"auto"``: bfloat16 on GPUs that multiply in it, float16 on older ones,
        float32 elsewhere; compiled on CUDA.
    """
    on_cuda = device.type == "cuda"
    kinds = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
    precision = settings.precision
    if precision == "auto":
        # torch.cuda.is_bf16_supported() is true for a T4, which only imitates it.
        modern = on_cuda and torch.cuda.get_device_capability(device) >= (8, 0)
        precision = "bf16" if modern else "fp16" if on_cuda else "fp32"
    compiled = settings.compile == "on" or (settings.compile == "auto" and on_cuda)
    return Placement(device, kinds[precision], compiled)
