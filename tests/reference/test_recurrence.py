"""The recurrent reference against torch.nn, autograd, central differences, and planted faults."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lib import reference as ref

SIZES = [(1, 1, 1), (4, 3, 5), (7, 5, 2), (0, 3, 4)]  # n, d_in, d_hidden
FORWARD = 1e-12  # float64, sums of a few products
BACKWARD = 1e-8  # against autograd far smaller; central differences set it


def layer(kind: str, n: int, d_in: int, d: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Random input and parameters for one kind of layer, all of float64."""
    rng = np.random.default_rng(seed)
    gates = {"rnn": 1, "gru": 3, "lstm": 4}[kind]
    parts = {"X": rng.normal(size=(n, d_in)), "h0": rng.normal(size=d)}
    if kind == "lstm":
        parts["c0"] = rng.normal(size=d)
    parts["W_x"] = rng.normal(size=(d_in, gates * d)) / np.sqrt(d_in)
    parts["W_h"] = rng.normal(size=(d, gates * d)) / np.sqrt(d)
    for name in ("b_x", "b_h") if kind == "gru" else ("b",):
        parts[name] = rng.normal(size=gates * d)
    return parts


FORWARDS: dict[str, Callable[..., object]] = {
    "rnn": lambda **p: (ref.rnn(**p),),
    "gru": lambda **p: (ref.gru(**p),),
    "lstm": lambda **p: ref.lstm(**p),
}


def forward(kind: str, parts: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    return FORWARDS[kind](**parts)  # type: ignore[return-value]


def backward(
    kind: str, parts: dict[str, np.ndarray], d_outs: list[np.ndarray]
) -> dict[str, np.ndarray]:
    outs = forward(kind, parts)
    p = dict(parts)
    if kind == "rnn":
        p.pop("b")
        return ref.rnn_backward(d_outs[0], H=outs[0], **p)._asdict()
    if kind == "gru":
        return ref.gru_backward(d_outs[0], H=outs[0], **p)._asdict()
    return ref.lstm_backward(*d_outs, H=outs[0], C=outs[1], **p)._asdict()


def torch_layer(kind: str, parts: dict[str, np.ndarray]) -> torch.nn.Module:
    d_in, d = parts["W_x"].shape[0], parts["W_h"].shape[0]
    module = {"rnn": torch.nn.RNN, "gru": torch.nn.GRU, "lstm": torch.nn.LSTM}[kind](
        d_in, d, dtype=torch.float64
    )
    with torch.no_grad():
        module.weight_ih_l0.copy_(torch.from_numpy(parts["W_x"].T.copy()))
        module.weight_hh_l0.copy_(torch.from_numpy(parts["W_h"].T.copy()))
        module.bias_ih_l0.copy_(
            torch.from_numpy(parts["b_x" if kind == "gru" else "b"])
        )
        module.bias_hh_l0.copy_(
            torch.from_numpy(parts["b_h"]) if kind == "gru" else torch.zeros(())
        )
    return module


def run_torch(
    kind: str, parts: dict[str, np.ndarray]
) -> tuple[torch.nn.Module, dict[str, torch.Tensor], torch.Tensor, torch.Tensor]:
    """torch.nn's states and last inner state, with leaves that collect gradients."""
    module = torch_layer(kind, parts)
    leaves = {
        k: torch.from_numpy(parts[k]).requires_grad_()
        for k in ("X", "h0", "c0")
        if k in parts
    }
    start = leaves["h0"][None]
    if kind == "lstm":
        H, (_, last) = module(leaves["X"], (start, leaves["c0"][None]))
    else:
        H, last = module(leaves["X"], start)
    return module, leaves, H, last[0]


KINDS = pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])


@KINDS
@pytest.mark.parametrize("sizes", SIZES[:3])
def test_states_equal_those_of_torch(kind: str, sizes: tuple[int, int, int]) -> None:
    parts = layer(kind, *sizes)
    _, _, H, last = run_torch(kind, parts)
    outs = forward(kind, parts)
    assert np.abs(outs[0] - H.detach().numpy()).max() < FORWARD
    assert np.abs(outs[-1][-1] - last.detach().numpy()).max() < FORWARD


@KINDS
@pytest.mark.parametrize("sizes", SIZES)
def test_a_sequence_is_its_cell_applied_token_after_token(
    kind: str, sizes: tuple[int, int, int]
) -> None:
    parts = layer(kind, *sizes)
    outs = forward(kind, parts)
    p = dict(parts)
    X, h = p.pop("X"), p.pop("h0")
    c = p.pop("c0", None)
    assert outs[0].shape == (sizes[0], sizes[2])
    for t, x in enumerate(X):
        if kind == "lstm":
            h, c = ref.lstm_cell(x, h, c, **p)
            assert np.array_equal(outs[1][t], c)
        else:
            h = {"rnn": ref.rnn_cell, "gru": ref.gru_cell}[kind](x, h, **p)
        assert np.array_equal(outs[0][t], h)


def test_one_step_by_hand() -> None:
    h = ref.rnn_cell(
        np.array([1.0, 0.0]),
        np.array([0.5, -1.0]),
        np.array([[1.0, 2.0], [5.0, 5.0]]),
        np.array([[0.0, 2.0], [1.0, 0.0]]),
        np.array([0.25, -1.0]),
    )
    # 1 + (-1) 1 + .25 = .25 ; 2 + .5 2 - 1 = 2
    assert np.allclose(h, np.tanh([0.25, 2.0]), atol=1e-15)


def test_lstm_gates_stand_in_the_order_input_forget_candidate_output() -> None:
    zero = np.zeros((1, 4))
    x = h = np.zeros(1)
    c = np.array([0.8])

    def cell(*bias: float) -> tuple[float, float]:
        h_new, c_new = ref.lstm_cell(x, h, c, zero, zero, np.array(bias))
        return float(h_new[0]), float(c_new[0])

    shut, open_ = -60.0, 60.0
    assert cell(shut, open_, 5.0, open_) == pytest.approx((np.tanh(0.8), 0.8))
    assert cell(shut, shut, 5.0, open_) == pytest.approx((0.0, 0.0), abs=1e-12)
    assert cell(open_, shut, 60.0, open_) == pytest.approx((np.tanh(1.0), 1.0))
    assert cell(open_, open_, 60.0, shut) == pytest.approx((0.0, 1.8), abs=1e-12)


def test_gru_keeps_its_state_when_the_update_gate_is_open() -> None:
    zero = np.zeros((2, 6))
    h = np.array([0.3, -0.7])
    b_x = np.array([0, 0, 60.0, 60.0, 1.0, 1.0])
    kept = ref.gru_cell(np.zeros(2), h, zero, zero, b_x, np.zeros(6))
    assert np.allclose(kept, h, atol=1e-12)
    b_x = np.array([0, 0, -60.0, -60.0, 1.0, 1.0])
    new = ref.gru_cell(np.zeros(2), h, zero, zero, b_x, np.zeros(6))
    assert np.allclose(new, np.tanh(1.0), atol=1e-12)


def scalar_loss(outs: tuple[np.ndarray, ...], d_outs: list[np.ndarray]) -> float:
    return float(sum((o * d).sum() for o, d in zip(outs, d_outs, strict=True)))


def random_d_outs(kind: str, outs: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(9)
    return [rng.normal(size=o.shape) for o in outs]


@KINDS
@pytest.mark.parametrize("sizes", SIZES[:3])
def test_gradients_equal_central_differences(
    kind: str, sizes: tuple[int, int, int]
) -> None:
    parts = layer(kind, *sizes)
    d_outs = random_d_outs(kind, forward(kind, parts))
    found = backward(kind, parts, d_outs)
    step = 1e-5  # error step^2 and eps/step: both near 1e-10
    for name, value in parts.items():
        for index in np.ndindex(*value.shape):
            moved = []
            for sign in (1, -1):
                changed = {k: v.copy() for k, v in parts.items()}
                changed[name][index] += sign * step
                moved.append(scalar_loss(forward(kind, changed), d_outs))
            slope = (moved[0] - moved[1]) / (2 * step)
            assert abs(slope - found[name][index]) < BACKWARD, (name, index)


@KINDS
@pytest.mark.parametrize("sizes", SIZES[:3])
def test_gradients_equal_autograd(kind: str, sizes: tuple[int, int, int]) -> None:
    parts = layer(kind, *sizes)
    outs = forward(kind, parts)
    d_outs = random_d_outs(kind, outs)
    if kind == "lstm":  # torch.nn.LSTM shows its last cell only
        d_outs[1][:-1] = 0.0
    found = backward(kind, parts, d_outs)
    module, leaves, H, last = run_torch(kind, parts)
    loss = (H * torch.from_numpy(d_outs[0])).sum()
    if kind == "lstm":
        loss = loss + (last * torch.from_numpy(d_outs[1][-1])).sum()
    loss.backward()
    want = {k: v.grad.numpy() for k, v in leaves.items()}
    want["W_x"] = module.weight_ih_l0.grad.numpy().T
    want["W_h"] = module.weight_hh_l0.grad.numpy().T
    want["b_x" if kind == "gru" else "b"] = module.bias_ih_l0.grad.numpy()
    if kind == "gru":
        want["b_h"] = module.bias_hh_l0.grad.numpy()
    assert want.keys() == found.keys()
    for name in want:
        assert found[name].shape == want[name].shape
        assert np.abs(found[name] - want[name]).max() < 1e-12, name


@KINDS
def test_an_empty_sequence_has_zero_gradients_and_hands_nothing_back(kind: str) -> None:
    parts = layer(kind, 0, 3, 4)
    outs = forward(kind, parts)
    found = backward(kind, parts, [np.zeros_like(o) for o in outs])
    for name, value in parts.items():
        assert found[name].shape == value.shape
        assert not found[name].any()


def jacobian_by_differences(parts: dict[str, np.ndarray]) -> np.ndarray:
    step, rows = 1e-6, []
    for i in range(len(parts["h0"])):
        ends = []
        for sign in (1, -1):
            h0 = parts["h0"].copy()
            h0[i] += sign * step
            ends.append(ref.rnn(**{**parts, "h0": h0})[-1])
        rows.append((ends[0] - ends[1]) / (2 * step))
    return np.array(rows)


def test_the_product_of_jacobians_is_the_derivative_of_the_last_state() -> None:
    parts = layer("rnn", 6, 3, 4)
    product = ref.gradient_product(parts["W_h"], ref.rnn(**parts))
    assert np.abs(product - jacobian_by_differences(parts)).max() < BACKWARD


def test_the_product_of_no_jacobians_is_the_identity() -> None:
    assert np.array_equal(
        ref.gradient_product(np.ones((3, 3)), np.zeros((0, 3))), np.eye(3)
    )


@given(
    n=st.integers(1, 6),
    d_in=st.integers(1, 4),
    d=st.integers(1, 4),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=40, deadline=None)
def test_a_later_token_never_changes_an_earlier_state(
    n: int, d_in: int, d: int, seed: int
) -> None:
    for kind in ("rnn", "lstm", "gru"):
        parts = layer(kind, n, d_in, d, seed)
        changed = {**parts, "X": parts["X"].copy()}
        changed["X"][-1] += 1.0
        before, after = forward(kind, parts)[0], forward(kind, changed)[0]
        assert np.array_equal(before[:-1], after[:-1])
        assert not np.array_equal(before[-1], after[-1])


def test_the_last_state_is_read_at_each_rows_own_end() -> None:
    H = np.arange(24.0).reshape(2, 4, 3)
    found = ref.last_state(H, np.array([4, 2]))
    assert np.array_equal(found, [H[0, 3], H[1, 1]])


def test_sigmoid_is_right_and_does_not_overflow() -> None:
    a = np.array([-1000.0, -2.0, 0.0, 3.0, 1000.0])
    with np.errstate(over="raise"):
        found = ref.sigmoid(a)
    assert np.allclose(found, [0.0, 1 / (1 + np.e**2), 0.5, 1 / (1 + np.e**-3), 1.0])


def test_scalar_reach_is_a_power_of_the_absolute_value() -> None:
    assert ref.scalar_reach(-2.0, [0, 3, 20]).tolist() == [1, 8, 2**20]
    assert ref.scalar_reach(0.9, 100.0) == pytest.approx(2.656e-5, rel=1e-3)
    assert ref.lstm_reach(0.0, 10) == pytest.approx(2.0**-10)
    assert ref.lstm_reach(3.0, 1.0) == pytest.approx(0.9525741268)
    assert ref.attention_reach(np.array([1.0, 4.0])).tolist() == [1.0, 0.25]


def test_recurrent_factor_undoes_scalar_reach() -> None:
    for reach, distance in [(0.5, 50), (1e-3, 7), (2.0, 10), (0.5, 1)]:
        factor = ref.recurrent_factor(reach, distance)
        assert float(ref.scalar_reach(factor, float(distance))) == pytest.approx(reach)


# Planted faults: each wrong implementation is told from the right one by the checks above.


def wrong_no_tanh(x, h, W_x, W_h, b):
    return x @ W_x + h @ W_h + b


def wrong_transposed(x, h, W_x, W_h, b):
    return np.tanh(x @ W_x + W_h @ h + b)


def wrong_no_bias(x, h, W_x, W_h, b):
    return np.tanh(x @ W_x + h @ W_h)


@pytest.mark.parametrize("wrong", [wrong_no_tanh, wrong_transposed, wrong_no_bias])
def test_a_planted_fault_in_the_cell_is_seen(wrong: Callable[..., np.ndarray]) -> None:
    parts = layer("rnn", 1, 3, 4)
    x = parts.pop("X")[0]
    h = parts.pop("h0")
    assert np.abs(wrong(x, h, **parts) - ref.rnn_cell(x, h, **parts)).max() > 1e-3


def wrong_slope_before(W_h, H, h0):
    product = np.eye(len(W_h))
    for h in np.concatenate([h0[None], H])[:-1]:
        product = product @ (W_h * (1 - h**2))
    return product


def wrong_slope_unsquared(W_h, H, h0):
    product = np.eye(len(W_h))
    for h in H:
        product = product @ (W_h * (1 - h))
    return product


def wrong_side(W_h, H, h0):
    product = np.eye(len(W_h))
    for h in H:
        product = (W_h * (1 - h**2)) @ product
    return product


def wrong_rows(W_h, H, h0):
    product = np.eye(len(W_h))
    for h in H:
        product = product @ (W_h * (1 - h**2)[:, None])
    return product


@pytest.mark.parametrize(
    "wrong", [wrong_slope_before, wrong_slope_unsquared, wrong_side, wrong_rows]
)
def test_a_planted_fault_in_the_product_is_seen(
    wrong: Callable[..., np.ndarray],
) -> None:
    parts = layer("rnn", 6, 3, 4)
    found = wrong(parts["W_h"], ref.rnn(**parts), parts["h0"])
    assert np.abs(found - jacobian_by_differences(parts)).max() > 1e-3


def test_planted_faults_in_the_backward_passes_are_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cut one path of the gradient at a time, in the source, and expect a difference."""
    import inspect
    import re

    import transformer_lib.reference.recurrence as module

    faults = {
        "rnn_backward": [
            (r"\(d_H\[t\] \+ d_h\)", "d_H[t]"),  # truncated after one step
            (r"\* \(1\.0 - H\[t\] \*\* 2\)", "* (1.0 - H[t])"),
            (r"W_h=before\.T @ D", "W_h=H.T @ D"),
        ],
        "lstm_backward": [
            (r"d_C\[t\] \+ d_c \+", "d_C[t] +"),  # the cell path is cut
            (r"d_H\[t\] \+ d_h", "d_H[t]"),
            (r"g_c \* c_before\[t\] \* f", "g_c * C[t] * f"),
            (r"g_h \* o \* \(1\.0 - squashed\*\*2\)", "g_h * o"),
            (r"D\[t\] @ W_h\.T, g_c \* f", "D[t] @ W_h.T, g_c"),
        ],
        "gru_backward": [
            (r" \+ g_h \* z", ""),  # the kept part hands nothing back
            (r"d_n \* r\]", "d_n]"),
            (r"before\[t\] - n\)", "H[t] - n)"),
        ],
    }
    for name, edits in faults.items():
        source = inspect.getsource(inspect.unwrap(getattr(module, name)))
        source = source[source.index("def ") :]
        kind = name.split("_")[0]
        parts = layer(kind, 5, 3, 4)
        d_outs = random_d_outs(kind, forward(kind, parts))
        right = backward(kind, parts, d_outs)
        for pattern, replacement in edits:
            mutant, count = re.subn(pattern, replacement, source)
            assert count == 1, f"{name}: {pattern} does not occur once"
            space = dict(vars(module))
            exec(compile(mutant, f"<mutant of {name}>", "exec"), space)
            monkeypatch.setattr(ref, name, space[name])
            wrong = backward(kind, parts, d_outs)
            gap = max(np.abs(wrong[k] - right[k]).max() for k in right)
            assert gap > 1e-3, f"{name}: {pattern} was not noticed"
        monkeypatch.undo()


# Bad input: the message names the argument, what came, and what was wanted.

GOOD = layer("rnn", 4, 3, 5)
BAD = [
    ("rnn_cell", {"x": np.zeros(2)}, ValueError, r"x: got shape \(2,\), wanted \(3,\)"),
    ("rnn_cell", {"h": np.zeros(4)}, ValueError, r"h: got shape \(4,\), wanted \(5,\)"),
    ("rnn", {"X": np.zeros(3)}, ValueError, r"X: got shape \(3,\), wanted \(n, 3\)"),
    ("rnn", {"X": np.zeros((4, 2))}, ValueError, r"X: got shape \(4, 2\)"),
    ("rnn", {"W_h": np.zeros((5, 4))}, ValueError, r"W_h: got .* wanted \(5, 5\)"),
    ("rnn", {"W_x": np.zeros((3, 4))}, ValueError, r"W_x: .* wanted \(d_in, 5\)"),
    (
        "rnn",
        {"b": np.zeros((5, 1))},
        ValueError,
        r"b: got shape \(5, 1\), wanted \(5,\)",
    ),
    ("rnn", {"h0": "zero"}, TypeError, "h0: got <U4 values, wanted real numbers"),
    ("rnn", {"X": np.zeros((4, 3), complex)}, TypeError, "X: got complex128 values"),
]


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(("function", "change", "error", "message"), BAD)
def test_bad_input_is_refused_by_name(
    function: str, change: dict[str, object], error: type[Exception], message: str
) -> None:
    arguments: dict[str, object] = dict(GOOD)
    if function == "rnn_cell":
        arguments["x"] = arguments.pop("X")[0]  # type: ignore[index]
        arguments["h"] = arguments.pop("h0")
    with pytest.raises(error, match=message):
        getattr(ref, function)(**{**arguments, **change})


@pytest.mark.no_shape_hook
@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_every_argument_of_every_layer_is_checked(kind: str) -> None:
    parts = layer(kind, 4, 3, 5)
    outs = forward(kind, parts)
    d_outs = random_d_outs(kind, outs)
    for name in parts:
        wrong = {**parts, name: np.zeros((2, 2, 2))}
        with pytest.raises(ValueError, match=rf"^{name}: got shape \(2, 2, 2\)"):
            forward(kind, wrong)
    names = ["d_H", "H"] + (["d_C", "C"] if kind == "lstm" else [])
    values = {"d_H": d_outs[0], "d_C": d_outs[-1], "H": outs[0], "C": outs[-1]}
    p = {k: v for k, v in parts.items() if not (kind == "rnn" and k == "b")}
    function = getattr(ref, f"{kind}_backward")
    for name in [*names, *p]:
        arguments = {**{k: values[k] for k in names}, **p, name: np.zeros((2, 2, 2))}
        with pytest.raises(ValueError, match=rf"^{name}: got shape \(2, 2, 2\)"):
            function(**arguments)


@pytest.mark.no_shape_hook
def test_bad_numbers_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"distance: got -1, wanted 0 or more"):
        ref.scalar_reach(0.5, -1)
    with pytest.raises(ValueError, match=r"factor: got nan"):
        ref.scalar_reach(float("nan"), 1)
    with pytest.raises(ValueError, match=r"forget_bias: got inf"):
        ref.lstm_reach(float("inf"), 1)
    with pytest.raises(ValueError, match=r"length: got 0, wanted 1 or more"):
        ref.attention_reach(0)
    with pytest.raises(ValueError, match=r"reach: got 0.0, wanted a number above 0"):
        ref.recurrent_factor(0.0, 5)
    with pytest.raises(ValueError, match=r"distance: got 0, wanted 1 or more"):
        ref.recurrent_factor(0.5, 0)
    with pytest.raises(TypeError, match="distance"):
        ref.recurrent_factor(0.5, "far")  # type: ignore[arg-type]
    H = np.zeros((2, 4, 3))
    with pytest.raises(ValueError, match=r"lengths: got 0 to 3, wanted 1 to n=4"):
        ref.last_state(H, np.array([0, 3]))
    with pytest.raises(ValueError, match=r"lengths: got shape \(3,\), wanted \(2,\)"):
        ref.last_state(H, np.array([1, 2, 3]))
    with pytest.raises(TypeError, match="lengths: got float64, wanted integers"):
        ref.last_state(H, np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match=r"W_h: got shape \(2, 3\), wanted \(2, 2\)"):
        ref.gradient_product(np.zeros((2, 3)), np.zeros((4, 2)))
