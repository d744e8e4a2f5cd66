"""AdamW, the fastest kind that the device has, for weights in float32 or bfloat16."""

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["MasterAdamW", "adamw"]


def adamw(
    model: nn.Module,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.98),
    eps: float = 1e-9,
    weight_decay: float = 0.0,
    bf16_weights: bool = False,
) -> torch.optim.AdamW:
    """Make the optimiser for a model.

    PyTorch's AdamW has three implementations. Its default on a CPU is a Python loop
    over the parameters; the fused one makes a single pass over memory and takes about a
    third of the time, a fifth of a whole training step at the base model's size.

    Parameters
    ----------
    model
        Its parameters that require a gradient are trained.
    lr
        Learning rate, 0 or more (a schedule may set it later).
    betas, eps
        Of Adam; the defaults are those of the Transformer paper.
    weight_decay
        Decoupled decay per step, times ``lr``; 0 or more.
    bf16_weights
        Cast the model to bfloat16, *changing it*, and keep one float32 copy of its
        weights here (see :class:`MasterAdamW`). The model is then trained without
        autocast: nothing has to be cast in each step.

    Returns
    -------
    optimizer
        An ordinary ``torch.optim.AdamW``.

    Raises
    ------
    ValueError
        If a number is out of its range or nothing is to be trained.

    References
    ----------
    Loshchilov and Hutter 2019, *Decoupled Weight Decay Regularization*; Vaswani et al.
    2017, section 5.3 (betas and eps); Micikevicius et al. 2018, *Mixed Precision
    Training* (the float32 copy).

    Examples
    --------
    >>> model = nn.Linear(3, 2)
    >>> optimizer = adamw(model, lr=0.1)
    >>> model(torch.ones(1, 3)).sum().backward()
    >>> optimizer.step()
    """
    for name, value in (("lr", lr), ("eps", eps), ("weight_decay", weight_decay)):
        if not 0.0 <= value < math.inf:
            raise ValueError(f"{name}: got {value}, wanted a finite number, 0 or more")
    if not all(0.0 <= beta < 1.0 for beta in betas):
        raise ValueError(f"betas: got {betas}, wanted two numbers in [0, 1)")
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise ValueError("model: got no parameter that requires a gradient")
    options: dict[str, Any] = {
        "lr": lr,
        "betas": betas,
        "eps": eps,
        "weight_decay": weight_decay,
        "fused": all(p.device.type in ("cpu", "cuda") for p in parameters),
    }
    if bf16_weights:
        return MasterAdamW(model, **options)
    return torch.optim.AdamW(parameters, **options)


class MasterAdamW(torch.optim.AdamW):
    """AdamW for a bfloat16 model, with a float32 copy of its weights.

    A bfloat16 number has eight significant bits, so a step smaller than about 1/256 of
    a weight would leave the weight as it was. Steps are therefore taken on a float32
    copy, and the model gets its rounded values. Schedules act on ``param_groups`` as
    always; gradients are clipped on the model's parameters, as always.

    Parameters
    ----------
    model
        Is cast to bfloat16, in place.
    options
        Of ``torch.optim.AdamW``.

    Examples
    --------
    >>> model = nn.Linear(3, 2)
    >>> optimizer = MasterAdamW(model, lr=1e-4)
    >>> model(torch.ones(1, 3, dtype=torch.bfloat16)).sum().backward()
    >>> optimizer.step()
    >>> model.weight.dtype, optimizer.param_groups[0]["params"][0].dtype
    (torch.bfloat16, torch.float32)
    """

    def __init__(self, model: nn.Module, **options: Any) -> None:
        trained = [p for p in model.parameters() if p.requires_grad]
        masters = [nn.Parameter(p.detach().float().clone()) for p in trained]
        model.to(torch.bfloat16)
        self._trained = [p for p in model.parameters() if p.requires_grad]
        self._masters = masters
        for master in masters:
            master.grad = torch.zeros_like(master)
        super().__init__(masters, **options)

    @torch.no_grad()
    def step(  # type: ignore[override]
        self, closure: Callable[[], float] | None = None
    ) -> float | None:
        """Update the float32 copy, and round it into the model.

        Parameters
        ----------
        closure
            Not supported: the gradients must be there.

        Raises
        ------
        ValueError
            If a closure is given.
        """
        if closure is not None:
            raise ValueError("closure: got one, wanted None")
        for parameter, master in zip(self._trained, self._masters, strict=True):
            gradient = master.grad
            if gradient is None or parameter.grad is None:
                master.grad = torch.zeros_like(master)
            else:
                gradient.copy_(parameter.grad)
        super().step()
        self._round_into_model()
        return None

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of the model."""
        for parameter in self._trained:
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad.zero_()

    def state_dict(self) -> dict[str, Any]:
        """What AdamW remembers, and the float32 copy of the weights."""
        masters = [master.detach() for master in self._masters]
        return {**super().state_dict(), "masters": masters}

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up training where :meth:`state_dict` was made."""
        state = copy.copy(state_dict)
        masters: list[Tensor] = state.pop("masters")
        super().load_state_dict(state)
        for master, kept in zip(self._masters, masters, strict=True):
            master.copy_(kept)
        self._round_into_model()

    def _round_into_model(self) -> None:
        for parameter, master in zip(self._trained, self._masters, strict=True):
            parameter.data.copy_(master.data)
