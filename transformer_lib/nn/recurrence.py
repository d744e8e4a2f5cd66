"""Recurrent layers in PyTorch: the equations of ``reference.recurrence``, batched.

The loop over the tokens runs inside ``torch.rnn_tanh`` and ``torch.lstm``, the kernels
that ``torch.nn.RNN`` and ``torch.nn.LSTM`` call. They are faster than a loop in Python,
but they are loops: each step still waits for the one before it. The kernels take
weights as ``(out, in)`` and two biases, hence the transposes and the zeros. Autocast is
off around them: on a CPU the LSTM kernel refuses bfloat16, with ``torch.nn`` as well.
``torch.compile`` cannot differentiate it either, and gets the loop written out.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["LSTM", "RNN"]

_StatesAndLast = tuple[Tensor, tuple[Tensor, Tensor]]


def _size(name: str, value: int) -> int:
    """A positive whole number, or an error that names it."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: got {value!r}, wanted a whole number")
    if value < 1:
        raise ValueError(f"{name}: got {value}, wanted 1 or more")
    return value


class _Recurrent(nn.Module):
    """Parameters, their first values, and the checks of both layers."""

    gates = 1

    def __init__(
        self,
        d_in: int,
        d_hidden: int,
        orthogonal: bool,
        generator: torch.Generator | None,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        self.d_in, self.d_hidden = _size("d_in", d_in), _size("d_hidden", d_hidden)
        self.orthogonal = orthogonal
        width = self.gates * d_hidden

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*shape, device=device, dtype=dtype))

        self.W_x = empty(d_in, width)
        self.W_h = empty(d_hidden, width)
        self.b = empty(width)
        self.reset_parameters(generator)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the parameters anew; ``generator`` must be on the parameters' device."""
        bound = 1.0 / math.sqrt(self.d_hidden)
        self.W_x.uniform_(-bound, bound, generator=generator)
        self.W_h.uniform_(-bound, bound, generator=generator)
        self.b.uniform_(-bound, bound, generator=generator)
        # torch.nn adds two biases; the sum of two draws has the same distribution.
        second = torch.empty_like(self.b).uniform_(-bound, bound, generator=generator)
        self.b.add_(second)
        if self.orthogonal:
            for block in self.W_h.chunk(self.gates, dim=1):
                square = torch.empty_like(block, memory_format=torch.contiguous_format)
                block.copy_(nn.init.orthogonal_(square, generator=generator))

    def _check_tokens(self, X: Tensor) -> Tensor:
        if X.dim() != 3 or X.shape[2] != self.d_in:
            raise ValueError(
                f"X: got shape {tuple(X.shape)}, wanted (batch, n, d_in={self.d_in})"
            )
        if not X.is_floating_point():
            raise TypeError(f"X: got {X.dtype}, wanted floating point vectors")
        if torch.is_autocast_enabled(X.device.type):
            return X.to(self.W_h.dtype)
        return X

    def _state(self, name: str, state: Tensor | None, X: Tensor) -> Tensor:
        wanted = (X.shape[0], self.d_hidden)
        if state is None:
            return X.new_zeros(wanted)
        if tuple(state.shape) != wanted:
            raise ValueError(f"{name}: got shape {tuple(state.shape)}, wanted {wanted}")
        return state.to(X.dtype)

    def _kernel_weights(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.W_x.T, self.W_h.T, self.b, torch.zeros_like(self.b)

    def _settings(self) -> tuple[bool, int, float, bool, bool, bool]:
        """With biases, one layer, no dropout, training, one direction, batch first."""
        return True, 1, 0.0, self.training, False, True

    def extra_repr(self) -> str:
        """What ``print`` shows of the layer."""
        return f"{self.d_in}, {self.d_hidden}, orthogonal={self.orthogonal}"


class RNN(_Recurrent):
    """``h_t = tanh(x_t W_x + h_{t-1} W_h + b)``, one token after the other.

    Parameters
    ----------
    d_in
        Width of a token.
    d_hidden
        Width of the state.
    orthogonal
        ``True`` starts ``W_h`` as a random orthogonal matrix, all of whose singular
        values are 1 (Saxe et al. 2014; Le et al. 2015 use the identity). ``False``
        draws it as ``torch.nn.RNN`` does, uniformly within ``1 / sqrt(d_hidden)``.
    generator
        Source of the random numbers; PyTorch's global one if ``None``.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    W_x, W_h, b
        Shapes ``(d_in, d_hidden)``, ``(d_hidden, d_hidden)``, ``(d_hidden,)``.

    Raises
    ------
    ValueError, TypeError
        If a size is no positive whole number; the message names it.

    Examples
    --------
    >>> rnn = RNN(3, 5, generator=torch.Generator().manual_seed(0))
    >>> H, h = rnn(torch.zeros(2, 7, 3))
    >>> H.shape, h.shape
    (torch.Size([2, 7, 5]), torch.Size([2, 5]))
    """

    def __init__(
        self,
        d_in: int,
        d_hidden: int,
        *,
        orthogonal: bool = False,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(d_in, d_hidden, orthogonal, generator, device, dtype)

    def forward(
        self,
        X: Float[Tensor, "batch n d_in"],
        h0: Float[Tensor, "batch d_hidden"] | None = None,
    ) -> tuple[Float[Tensor, "batch n d_hidden"], Float[Tensor, "batch d_hidden"]]:
        """States after every token, and the last one.

        Parameters
        ----------
        X
            Tokens, ``(batch, n, d_in)``.
        h0
            State before the first token, ``(batch, d_hidden)``; zeros if ``None``.

        Returns
        -------
        tuple of Tensor
            ``(batch, n, d_hidden)`` and ``(batch, d_hidden)``. In a padded batch the
            second is the state after the *padding*; take each row's own last token
            from the first.

        Raises
        ------
        ValueError, TypeError
            If an argument's shape or type does not fit; the message names it.
        """
        X = self._check_tokens(X)
        h = self._state("h0", h0, X)
        if not X.shape[1]:
            return X.new_zeros(X.shape[0], 0, self.d_hidden), h
        with torch.autocast(X.device.type, enabled=False):
            H, last = torch.rnn_tanh(
                X, h[None], self._kernel_weights(), *self._settings()
            )
        return H, last[0]


class LSTM(_Recurrent):
    """The LSTM: a cell that each step keeps in part and adds to.

    Parameters
    ----------
    d_in
        Width of a token.
    d_hidden
        Width of state and cell.
    forget_bias
        Added to the forget gate's bias. 0 is PyTorch's default and lets the gate start
        near 1/2; 1 is the usual cure (Jozefowicz et al. 2015), 3 starts it at 0.95.
    orthogonal
        ``True`` starts each gate's block of ``W_h`` as a random orthogonal matrix.
    generator
        Source of the random numbers; PyTorch's global one if ``None``.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    W_x, W_h, b
        Shapes ``(d_in, 4 d_hidden)``, ``(d_hidden, 4 d_hidden)``, ``(4 d_hidden,)``;
        the columns hold input gate, forget gate, candidate, output gate.

    Raises
    ------
    ValueError, TypeError
        If a size is no positive whole number, or ``forget_bias`` is not finite.

    Examples
    --------
    >>> lstm = LSTM(3, 5, forget_bias=1.0, generator=torch.Generator().manual_seed(0))
    >>> H, (h, c) = lstm(torch.zeros(2, 7, 3))
    >>> H.shape, c.shape
    (torch.Size([2, 7, 5]), torch.Size([2, 5]))
    """

    gates = 4

    def __init__(
        self,
        d_in: int,
        d_hidden: int,
        *,
        forget_bias: float | int = 0.0,
        orthogonal: bool = False,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if not math.isfinite(forget_bias):
            raise ValueError(f"forget_bias: got {forget_bias}, wanted a finite number")
        self.forget_bias = forget_bias
        super().__init__(d_in, d_hidden, orthogonal, generator, device, dtype)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the parameters anew; ``generator`` must be on the parameters' device."""
        super().reset_parameters(generator)
        self.b[self.d_hidden : 2 * self.d_hidden].add_(self.forget_bias)

    def forward(
        self,
        X: Float[Tensor, "batch n d_in"],
        state: tuple[Float[Tensor, "batch d_hidden"], Float[Tensor, "batch d_hidden"]]
        | None = None,
    ) -> tuple[
        Float[Tensor, "batch n d_hidden"],
        tuple[Float[Tensor, "batch d_hidden"], Float[Tensor, "batch d_hidden"]],
    ]:
        """States after every token, and the last state and cell.

        Parameters
        ----------
        X
            Tokens, ``(batch, n, d_in)``.
        state
            State and cell before the first token, each ``(batch, d_hidden)``; zeros if
            ``None``.

        Returns
        -------
        tuple
            ``(batch, n, d_hidden)``, and the pair of ``(batch, d_hidden)``. In a padded
            batch the pair is that after the *padding*.

        Raises
        ------
        ValueError, TypeError
            If an argument's shape or type does not fit; the message names it.
        """
        X = self._check_tokens(X)
        h0, c0 = (None, None) if state is None else state
        h, c = self._state("h0", h0, X), self._state("c0", c0, X)
        if not X.shape[1]:
            return X.new_zeros(X.shape[0], 0, self.d_hidden), (h, c)
        if torch.compiler.is_compiling():
            return self._loop(X, h, c)
        with torch.autocast(X.device.type, enabled=False):
            H, h, c = torch.lstm(
                X, (h[None], c[None]), self._kernel_weights(), *self._settings()
            )
        return H, (h[0], c[0])

    def _loop(self, X: Tensor, h: Tensor, c: Tensor) -> _StatesAndLast:
        """The same in single operations, for ``torch.compile``."""
        states = []
        for x in X.unbind(1):
            i, f, g, o = (x @ self.W_x + h @ self.W_h + self.b).chunk(4, dim=-1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            states.append(h)
        return torch.stack(states, dim=1), (h, c)

    def extra_repr(self) -> str:
        """What ``print`` shows of the layer."""
        return f"{super().extra_repr()}, forget_bias={self.forget_bias}"
