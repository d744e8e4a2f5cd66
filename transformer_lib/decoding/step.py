"""What a model must offer to be decoded, and models that have it already.

The step interface has two halves. ``start(source_ids, max_len)`` reads the source and
gives a state; ``step(ids, state)`` reads one more token per row and gives the scores of
the next. The state follows its rows (``select``) when beams are reordered. Whatever has
these methods can be decoded by every function of this package.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

__all__ = ["Rerun", "StepModel", "StepState"]


@runtime_checkable
class StepState(Protocol):
    """What a model remembers between two steps."""

    def select(self, rows: Int[Tensor, " new_batch"]) -> None:
        """Keep these rows, in this order; a row may come more than once."""


@runtime_checkable
class StepModel(Protocol):
    """A model that writes one token at a time."""

    def start(self, source_ids: Int[Tensor, "batch n_s"], max_len: int) -> Any:
        """Read the source and give a state with room for ``max_len`` target tokens."""

    def step(
        self, ids: Int[Tensor, " batch"], state: Any
    ) -> Float[Tensor, "batch vocab"]:
        """Read one more token per row and give the scores of the next one."""


class _Prefixes:
    """The state of :class:`Rerun`: all that was read so far."""

    def __init__(self, source_ids: Tensor) -> None:
        self.source_ids = source_ids
        self.target_ids = source_ids.new_empty(source_ids.shape[0], 0)

    def select(self, rows: Tensor) -> None:
        self.source_ids = self.source_ids[rows]
        self.target_ids = self.target_ids[rows]


class Rerun(nn.Module):
    """Decode any model by running it again on the whole prefix at each step.

    No cache, so the work grows with the square of the length. It serves models that
    only have ``forward(source_ids, target_ids) -> logits``, and as the slow truth that
    a cache is compared with.

    Parameters
    ----------
    model
        Called as ``model(source_ids, target_ids)``; must give logits of shape
        ``(batch, n_t, vocab)`` whose row ``t`` scores the token after target ``t``.

    Examples
    --------
    >>> def parrot(source_ids, target_ids):  # says the source again, token by token
    ...     said = source_ids[:, : target_ids.shape[1]]
    ...     return torch.nn.functional.one_hot(said, 10).float()
    >>> from transformer_lib.decoding import greedy
    >>> greedy(Rerun(parrot), torch.tensor([[7, 8, 2]]), bos_id=1, eos_id=2, max_len=5)
    tensor([[7, 8, 2]])
    """

    def __init__(self, model: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.model = model

    def start(self, source_ids: Int[Tensor, "batch n_s"], max_len: int) -> _Prefixes:
        """Remember the source; ``max_len`` is not needed without a cache."""
        return _Prefixes(source_ids)

    def step(
        self, ids: Int[Tensor, " batch"], state: _Prefixes
    ) -> Float[Tensor, "batch vocab"]:
        """Run the model on everything read so far."""
        state.target_ids = torch.cat([state.target_ids, ids[:, None]], dim=1)
        return self.model(state.source_ids, state.target_ids)[:, -1]


@contextmanager
def evaluating(model: object) -> Iterator[None]:
    """Switch dropout and gradients off; afterwards put back each module's mode."""
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    modes = [module.training for module in modules]
    try:
        for module in modules:
            module.training = False
        with torch.inference_mode():
            yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


def check_request(model: object, source_ids: Tensor, max_len: int, **ids: int) -> None:
    """Raise unless model, source and numbers are usable."""
    if not isinstance(model, StepModel):
        raise TypeError(
            f"model: got {type(model).__name__}, wanted one with the methods start and "
            "step; Rerun(model) gives them to a model that has only a forward pass"
        )
    if source_ids.ndim != 2:
        raise ValueError(
            f"source_ids: got shape {tuple(source_ids.shape)}, wanted (batch, n_s)"
        )
    if source_ids.is_floating_point() or source_ids.dtype == torch.bool:
        raise TypeError(
            f"source_ids: got {source_ids.dtype}, wanted integers (token numbers)"
        )
    for name, value, least in (
        ("max_len", max_len, 1),
        *((name, value, 0) for name, value in ids.items()),
    ):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name}: got {value!r}, wanted a whole number")
        if value < least:
            raise ValueError(f"{name}: got {value}, wanted {least} or more")


def check_vocabulary(logits: Tensor, **ids: int) -> None:
    """Raise unless all these ids are among those that the model scores."""
    for name, value in ids.items():
        if value >= logits.shape[-1]:
            raise ValueError(
                f"{name}: got {value}, wanted a number below {logits.shape[-1]}, "
                "the tokens that the model scores"
            )
