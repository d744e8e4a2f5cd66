"""Costs counted by formula equal costs counted by loops and by torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from transformer_lib.reference import cost


def counted(module: nn.Module, *inputs: torch.Tensor, backward: bool = False) -> int:
    """What torch's own counter finds on the way through a module."""
    with FlopCounterMode(display=False) as counter:
        output = module(*inputs)
        output = output[0] if isinstance(output, tuple) else output
        if backward:
            output.sum().backward()
    return int(counter.get_total_flops())


def test_a_product_counts_each_triple_twice() -> None:
    flops = 0
    for _ in range(2):
        for _ in range(3):
            for _ in range(4):
                flops += 2  # one multiplication, one addition
    assert cost.matmul_flops(2, 3, 4) == flops


@pytest.mark.parametrize("num_heads", [1, 2, 4])
def test_attention_costs_the_same_for_any_number_of_heads(num_heads: int) -> None:
    module = nn.MultiheadAttention(8, num_heads, batch_first=True)
    query, source = torch.randn(1, 5, 8), torch.randn(1, 7, 8)
    assert cost.multi_head_attention_flops(5, 7, 8) == counted(
        module, query, source, source
    )


def test_layers_cost_what_torch_counts() -> None:
    x, memory = torch.randn(1, 5, 8), torch.randn(1, 7, 8)
    layer = nn.TransformerEncoderLayer(8, 2, 32, batch_first=True)
    assert cost.encoder_layer_flops(5, 8, 32) == counted(layer, x)
    of_decoder = nn.TransformerDecoderLayer(8, 2, 32, batch_first=True)
    assert cost.decoder_layer_flops(5, 7, 8, 32) == counted(of_decoder, x, memory)


def test_the_whole_model_costs_what_torch_counts_and_training_three_times_that() -> (
    None
):
    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Transformer(8, 2, 2, 3, 32, batch_first=True)
            self.head = nn.Linear(8, 11)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(x, y))

    model = Whole()
    x = torch.randn(1, 7, 8, requires_grad=True)
    y = torch.randn(1, 5, 8, requires_grad=True)
    sizes = (7, 5, 8, 32, 2, 3, 11)
    assert cost.transformer_flops(*sizes) == counted(model, x, y)
    assert cost.transformer_flops(*sizes, training=True) == counted(
        model, x, y, backward=True
    )


def test_recurrent_layers() -> None:
    assert cost.rnn_flops(3, 4, 5) == 3 * (cost.matmul_flops(1, 4, 5) + 2 * 5 * 5)
    assert cost.lstm_flops(3, 4, 5) == 4 * cost.rnn_flops(3, 4, 5)
    # Attention's core against an RNN's is n against d; with projections, n against 2 d.
    n = d = 16
    assert cost.attention_flops(n, n, d) == 2 * cost.matmul_flops(n, d, d)
    assert cost.lstm_flops(2 * d, d, d) == cost.multi_head_attention_flops(
        2 * d, 2 * d, d
    )


def test_score_matrices_grow_with_the_heads_and_with_the_square_of_the_length() -> None:
    assert cost.score_bytes(10, 20, 3) == 10 * 20 * 3 * 4
    assert cost.score_bytes(10, 20, 3, bytes_per_number=2) == 10 * 20 * 3 * 2


def test_the_base_model_of_the_benchmarks() -> None:
    per_pair = cost.transformer_flops(64, 64, 512, 2048, 6, 6, 8000, training=True)
    assert 8 * per_pair == 151_498_260_480


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cost.matmul_flops(1, -2, 3), "b: got -2, wanted 0 or more"),
        (lambda: cost.attention_flops(-1, 2, 3), "n_queries: got -1"),
        (
            lambda: cost.transformer_flops(1, 1, 1, 1, -1, 1, 1),
            "num_encoder_layers: got -1",
        ),
        (lambda: cost.score_bytes(1, 1, -1), "num_heads: got -1"),
    ],
)
def test_bad_input_is_named(call: Any, words: str) -> None:
    with pytest.raises(ValueError, match="got") as caught:
        call()
    assert words in str(caught.value)


# --- states of fixed size -------------------------------------------------------------


def written_out(Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Linear attention as a matrix of weights, one row for each query."""

    def phi(x: np.ndarray) -> np.ndarray:
        return np.asarray(torch.nn.functional.elu(torch.tensor(x)) + 1.0)

    weights = np.tril(phi(Q) @ phi(K).T)
    return weights / weights.sum(axis=1, keepdims=True) @ V


def test_linear_attention_is_an_average_with_causal_weights() -> None:
    rng = np.random.default_rng(0)
    Q, K, V = rng.normal(size=(7, 3)), rng.normal(size=(7, 3)), rng.normal(size=(7, 5))
    output, state = cost.linear_attention(Q, K, V)
    assert np.abs(output - written_out(Q, K, V)).max() < 1e-12
    assert state.shape == (3, 5)
    earlier, _ = cost.linear_attention(Q[:4], K[:4], V[:4])
    assert np.array_equal(output[:4], earlier)
    # Planted: without the causal triangle the first rows would differ.
    everyone, _ = cost.linear_attention(Q[::-1], K[::-1], V[::-1])
    assert np.abs(everyone[::-1] - output).max() > 0.1


def test_linear_attention_costs_what_torch_counts() -> None:
    n, heads, d_head = 6, 2, 4
    q = torch.randn(heads, n, 1, d_head)
    k, v = torch.randn(heads, n, d_head, 1), torch.randn(heads, n, 1, d_head)

    def run() -> torch.Tensor:
        return q @ (k @ v).cumsum(1)

    with FlopCounterMode(display=False) as counter:
        run()
    assert cost.linear_attention_flops(n, 8, heads) == counter.get_total_flops()
    for n in (3, 4, 5):  # the crossover lies at n = d_head
        assert (
            cost.linear_attention_flops(n, 8, 2) < cost.attention_flops(n, n, 8)
        ) == (n > 4)


def test_the_linear_recurrence_and_its_gradients() -> None:
    rng = np.random.default_rng(1)
    a, b, d_states = (rng.normal(size=(6, 3)) for _ in range(3))
    states = cost.linear_recurrence(a, b)
    assert np.allclose(states[0], b[0])
    assert np.allclose(states[5], a[5] * states[4] + b[5])
    leaves = [torch.tensor(x, requires_grad=True) for x in (a, b)]
    h, found = torch.zeros(3, dtype=torch.float64), []
    for t in range(6):
        h = leaves[0][t] * h + leaves[1][t]
        found.append(h)
    torch.stack(found).backward(torch.tensor(d_states))
    d_a, d_b = cost.linear_recurrence_backward(d_states, a, states)
    assert np.allclose(d_a, leaves[0].grad)
    assert np.allclose(d_b, leaves[1].grad)
    # Planted: states that are one step off are seen.
    off, _ = cost.linear_recurrence_backward(d_states, a, np.roll(states, 1, axis=0))
    assert not np.allclose(off, leaves[0].grad)


def test_the_slower_of_arithmetic_and_transport_decides_and_steps_add_pauses() -> None:
    limits = {"flops_per_second": 10.0, "bytes_per_second": 2.0}
    assert cost.least_seconds(30.0, 2.0, 0, **limits, pause=1.0) == 3.0
    assert cost.least_seconds(30.0, 8.0, 0, **limits, pause=1.0) == 4.0
    assert cost.least_seconds(30.0, 8.0, 5, **limits, pause=0.5) == 6.5


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cost.linear_attention_flops(3, 8, 3), "num_heads: got 3"),
        (lambda: cost.linear_attention_flops(3, 8, 0), "num_heads: got 0"),
        (lambda: cost.least_seconds(1, 1, -1, 1, 1, 0), "steps: got -1"),
        (lambda: cost.least_seconds(1, 1, 1, 0, 1, 0), "flops_per_second: got 0"),
        (
            lambda: cost.linear_attention(
                np.ones((2, 3)), np.ones((2, 4)), np.ones((2, 1))
            ),
            "Q, K, V: got shapes (2, 3), (2, 4) and (2, 1)",
        ),
        (
            lambda: cost.linear_recurrence(np.ones((2, 3)), np.ones((3, 3))),
            "b: got shape (3, 3), wanted (2, 3)",
        ),
        (
            lambda: cost.linear_recurrence_backward(
                np.ones((2, 1)), np.ones((2, 1)), np.ones((3, 1))
            ),
            "states: got shape (3, 1), wanted (2, 1)",
        ),
    ],
)
def test_bad_states_are_named(call: Any, words: str) -> None:
    with pytest.raises(ValueError, match="got") as caught:
        call()
    assert words in str(caught.value)
