"""Chapter 8's measurements: the stacks are what they say, and the records hold."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from importlib import resources

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from transformer_lib.experiments import normalization, records
from transformer_lib.experiments.normalization import (
    ARRANGEMENTS,
    LENGTH,
    LETTERS,
    STARTS,
    Arrangement,
    Layer,
    Reader,
    bag_plateau,
    fresh_stack,
    hop_batch,
    reversal_batch,
    stops_short,
    train_hops,
    train_on_few,
    train_reversal,
)
from transformer_lib.reference import (
    encoder_layer,
    encoder_layer_backward,
    feed_forward,
    layer_norm,
    layer_norm_backward,
    multi_head_attention,
)
from transformer_lib.reference.encoder_decoder import EncoderLayerParameters


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


# --- the model ------------------------------------------------------------------------


def silent(layer: Layer) -> Layer:
    """The layer with sub-layers that give zero."""
    for block in (layer.attention, layer.feed_forward):
        for parameter in block.parameters():
            torch.nn.init.zeros_(parameter)
    return layer


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_a_layer_whose_sublayers_give_zero_shows_its_arrangement(
    arrangement: Arrangement,
) -> None:
    x = torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(0)) * 3 + 1
    y = silent(Layer(arrangement))(x)
    wanted = {
        "plain": torch.zeros_like(x),
        "norm": torch.zeros_like(x),
        "skip": x,
        "pre-norm": x,
        "post-norm": F.layer_norm(x, (32,)),
    }[arrangement]
    assert torch.allclose(y, wanted, atol=1e-4)


def parameters_of(layer: Layer) -> EncoderLayerParameters:
    norms = [norm.reference_parameters() for norm in layer.norms]  # type: ignore[operator]
    return EncoderLayerParameters(
        layer.attention.reference_parameters(),
        norms[0],
        layer.feed_forward.reference_parameters(),
        norms[1],
    )


def numpy_layer(arrangement: str, layer: Layer) -> Callable[[np.ndarray], np.ndarray]:
    """The same layer in NumPy, from the functions of the reference."""
    if arrangement in ("pre-norm", "post-norm"):
        parameters = parameters_of(layer)
        return lambda X: encoder_layer(
            X, parameters, 4, norm_first=arrangement == "pre-norm"
        )
    attention = layer.attention.reference_parameters()
    network = layer.feed_forward.reference_parameters()
    blocks = (
        lambda X: multi_head_attention(X, X, attention, 4)[0],
        lambda X: feed_forward(X, *network),
    )

    def run(X: np.ndarray) -> np.ndarray:
        for block in blocks:
            if arrangement == "skip":
                X = X + block(X)
            elif arrangement == "norm":
                X = layer_norm(block(X), np.ones(32), np.zeros(32))
            else:
                X = block(X)
        return X

    return run


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_sizes_of_a_fresh_stack_are_those_of_the_reference(
    arrangement: Arrangement, start: normalization.Start
) -> None:
    model = normalization._fresh(lambda: Reader(arrangement, start, 3), 1)
    letters, _ = reversal_batch(64, torch.Generator().manual_seed(1))
    with torch.no_grad():
        X = (model.letters(letters) + model.positions).double().numpy()
    sizes = [np.sqrt(np.square(X).mean())]
    for layer in model.layers:
        assert isinstance(layer, Layer)
        X = numpy_layer(arrangement, layer)(X)
        sizes.append(np.sqrt(np.square(X).mean()))
    assert fresh_stack(arrangement, start, 3, seed=1).sizes == pytest.approx(
        sizes, rel=1e-5
    )


@pytest.mark.parametrize("arrangement", ["pre-norm", "post-norm"])
def test_gradients_of_a_fresh_stack_are_those_of_the_reference(
    arrangement: Arrangement,
) -> None:
    """Forward and backward by hand, through read-out and cross-entropy."""
    model = normalization._fresh(lambda: Reader(arrangement, "Xavier", 3), 2).double()
    letters, answers = reversal_batch(64, torch.Generator().manual_seed(2))
    first = arrangement == "pre-norm"
    with torch.no_grad():
        X = (model.letters(letters) + model.positions).numpy()
    layers = [layer for layer in model.layers if isinstance(layer, Layer)]
    inputs = [X]
    for layer in layers:
        inputs.append(
            encoder_layer(inputs[-1], parameters_of(layer), 4, norm_first=first)
        )
    gamma, beta = np.ones(32), np.zeros(32)
    last = layer_norm(inputs[-1], gamma, beta) if first else inputs[-1]
    W = model.answer.weight.detach().numpy()
    logits = last @ W.T + model.answer.bias.detach().numpy()
    shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    wanted = np.eye(LETTERS)[answers.numpy()]
    dX = (shares - wanted) / answers.numel() @ W
    if first:
        dX = layer_norm_backward(dX, inputs[-1], gamma)[0]
    norms = []
    for layer, X in zip(reversed(layers), reversed(inputs[:-1]), strict=True):
        dX, gradients = encoder_layer_backward(
            dX, X, parameters_of(layer), 4, norm_first=first
        )
        blocks = (*gradients.self_attention, *gradients.feed_forward)
        norms.append(np.sqrt(sum(np.square(g).sum() for g in blocks)))
    found = fresh_stack(arrangement, "Xavier", 3, seed=2).gradients
    assert found == pytest.approx(norms[::-1], rel=1e-5)


def test_starts_have_the_variance_of_their_recipe() -> None:
    """Queries, keys and values are drawn one by one, not as one wide matrix."""
    spreads = {"Xavier": (2 / 64) ** 0.5, "default": (1 / 96) ** 0.5, "0.02": 0.02}
    for start in STARTS:
        model = normalization._fresh(lambda s=start: Reader("skip", s, 8), 0)
        for of in ("W_Q", "W_O"):
            weights = torch.stack(
                [getattr(layer.attention, of).weight for layer in model.layers]  # type: ignore[union-attr]
            )
            assert weights.std().item() == pytest.approx(spreads[start], rel=0.03)
        packed = torch.stack([layer.attention.W_KV.weight for layer in model.layers])  # type: ignore[union-attr]
        for half in packed.chunk(2, dim=1):
            assert half.std().item() == pytest.approx(spreads[start], rel=0.03)
    wide = torch.nn.init.xavier_uniform_(torch.empty(64, 32))  # the mistake
    assert wide.std().item() != pytest.approx(spreads["Xavier"], rel=0.03)


@pytest.mark.no_shape_hook
def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="arrangement: got 'sandwich', wanted one of"):
        Reader("sandwich", "Xavier", 2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="start: got 'zero', wanted one of"):
        Reader("skip", "zero", 2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="layers: got -1, wanted 0 or more"):
        Reader("skip", "Xavier", -1)
    with pytest.raises(ValueError, match="rows: got 0, wanted 1 or more"):
        train_on_few("skip", 0, seed=0)
    with pytest.raises(ValueError, match="hops: got 0, wanted 1 or more"):
        hop_batch(0, 1, torch.Generator())
    with pytest.raises(ValueError, match="letters: got 0, wanted 1 or more"):
        bag_plateau(letters=0)


# --- the tasks ------------------------------------------------------------------------


def test_the_plateau_is_what_a_model_without_order_scores() -> None:
    letters, answers = reversal_batch(20_000, torch.Generator().manual_seed(0))
    assert torch.equal(answers, letters.flip(1))
    counts = F.one_hot(letters, LETTERS).sum(dim=1)  # (rows, letters)
    guess = counts.argmax(dim=1, keepdim=True)
    score = (answers == guess).double().mean().item()
    assert bag_plateau() == pytest.approx(score, abs=0.003)
    assert bag_plateau() == pytest.approx(0.3632, abs=5e-5)
    any_letter = (answers == letters[:, :1]).double().mean().item()  # a worse guess
    assert any_letter < bag_plateau() - 0.05
    assert bag_plateau(letters=1, length=4) == 1.0


def test_hops_follow_the_pointers_one_by_one() -> None:
    generator = torch.Generator().manual_seed(4)
    pointers, ends = hop_batch(3, 50, generator)
    for row, end in zip(pointers.tolist(), ends.tolist(), strict=True):
        assert end == [row[row[row[place]]] for place in range(LETTERS)]
    one, same = hop_batch(1, 50, generator)
    assert torch.equal(one, same)


def test_stopping_short_is_right_where_the_paths_meet() -> None:
    assert stops_short(4, 4, rows=100) == 1.0
    pointers, four = hop_batch(4, 5_000, torch.Generator().manual_seed(5))
    two = pointers.gather(1, pointers)
    assert stops_short(2, 4) == pytest.approx(
        (two == four).double().mean().item(), abs=0.01
    )
    assert stops_short(1, 4) < stops_short(2, 4) < 0.6


# --- training -------------------------------------------------------------------------


def test_a_seed_gives_the_same_run_and_leaves_torch_alone() -> None:
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    runs = [
        train_reversal("pre-norm", "default", seed, layers=1, steps=6, every=3)
        for seed in (0, 0, 1)
    ]
    assert torch.equal(before, torch.random.get_rng_state())
    (first, curve), (again, same), (other, _) = runs
    assert curve == same
    assert torch.equal(first.answer.weight, again.answer.weight)
    assert not torch.equal(first.answer.weight, other.answer.weight)


def test_warm_up_makes_the_first_steps_small() -> None:
    def moved(warm_up: int) -> float:
        before = normalization._fresh(lambda: Reader("skip", "default", 1), 0)
        after, _ = train_reversal(
            "skip", "default", 0, layers=1, steps=1, every=1, warm_up=warm_up
        )
        return (after.answer.weight - before.answer.weight).abs().max().item()

    assert moved(100) == pytest.approx(moved(0) / 100, rel=1e-3)


def test_a_change_is_planted_before_training() -> None:
    def share(model: Reader) -> None:
        for layer in model.layers:
            layer.norms[1] = layer.norms[0]  # type: ignore[index,operator]

    sizes = [
        sum(
            p.numel()
            for p in train_reversal(
                "pre-norm", "default", 0, layers=2, steps=1, every=1, change=change
            )[0].parameters()
        )
        for change in (None, share)
    ]
    assert sizes[0] - sizes[1] == 2 * 2 * 32


def test_measured_rows_are_the_same_for_every_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []

    def spy(
        model: torch.nn.Module, letters: torch.Tensor, answers: torch.Tensor
    ) -> float:
        seen.append(letters)
        return 0.0

    monkeypatch.setattr(normalization, "_right", spy)
    for seed in (0, 1):
        train_reversal("skip", "default", seed, layers=1, steps=1, every=1)
    assert all(torch.equal(seen[0], other) for other in seen)
    assert seen[0].shape == (512, LENGTH)


# --- records: one cheap seed against the recorded range, and the chapter's claims -----

MARGIN = 0.05  # other processors sum in another order


@pytest.mark.parametrize(
    ("arrangement", "start"),
    [("pre-norm", "Xavier"), ("post-norm", "Xavier"), ("skip", "default")],
)
def test_seed_zero_lies_in_the_recorded_range(
    arrangement: Arrangement, start: normalization.Start
) -> None:
    record = records.load("normalization_trained")
    low, high = records.spread(record, f"{arrangement}, {start}, step 160")
    _, curve = train_reversal(arrangement, start, seed=0, every=160)
    assert low - MARGIN <= curve.right[-1] <= high + MARGIN


def test_hops_of_seed_zero_lie_in_the_recorded_range() -> None:
    record = records.load("normalization_hops")
    for layers in (1, 2):
        low, high = records.spread(record, f"4 hops, {layers} layers")
        right = train_hops(layers, 4, seed=0, every=400).right[-1]
        assert low - MARGIN <= right <= high + MARGIN


def test_the_widget_plays_what_fresh_stacks_do() -> None:
    file = resources.files("transformer_lib.widgets") / "data" / "normalization.json"
    stored = json.loads(file.read_text(encoding="utf-8"))
    assert stored["arrangements"] == list(ARRANGEMENTS)
    assert stored["starts"] == list(STARTS)
    for arrangement, start, layers in itertools.product(
        ARRANGEMENTS, STARTS, stored["layers"]
    ):
        run = stored["runs"][f"{arrangement}, {start}, {layers}"]
        assert len(run["sizes"]) == layers + 1
        assert len(run["gradients"]) == layers
        if layers <= 2:
            made = [fresh_stack(arrangement, start, layers, s) for s in stored["seeds"]]
            for name in ("sizes", "gradients"):
                wanted = np.median([getattr(stack, name) for stack in made], axis=0)
                assert run[name] == pytest.approx(wanted.tolist(), rel=6e-3)


def test_recorded_claims_about_fresh_stacks() -> None:
    record = records.load("normalization_fresh")
    for start in STARTS:
        assert records.spread(record, f"first gradient, plain, {start}")[1] < -3
        for name in ("post-norm", "pre-norm"):
            for place in ("first", "last"):
                low, high = records.spread(record, f"{place} gradient, {name}, {start}")
                assert -2 < low <= high < 1
    xavier, default, small = (
        records.median(record, f"first gradient, skip, {start}") for start in STARTS
    )
    assert xavier > 6
    assert 0 < default < 2
    assert small < 0


def test_recorded_claims_about_training() -> None:
    record = records.load("normalization_trained")

    def spread(name: str, start: str, step: int = 160) -> tuple[float, float]:
        return records.spread(record, f"{name}, {start}, step {step}")

    for start in STARTS:
        assert spread("pre-norm", start)[0] > 0.95
    for start in ("default", "0.02"):
        assert spread("post-norm", start)[0] > 0.95
        assert spread("skip", start)[0] > 0.95
    assert spread("skip", "Xavier")[1] < 0.25
    assert spread("post-norm", "Xavier")[1] < bag_plateau() + 0.03
    six = [f"6 layers, post-norm, Xavier, step {step}" for step in (60, 240)]
    assert records.median(record, six[0]) < 0.6
    assert records.median(record, six[1]) > 0.95


def test_recorded_claims_about_few_rows() -> None:
    record = records.load("normalization_few")
    for name in ("skip", "pre-norm"):
        assert records.spread(record, f"seen, {name}")[0] > 0.99
    without = records.spread(record, "fresh, skip")[1]
    assert records.spread(record, "fresh, pre-norm")[0] > without + 0.02
    seen, fresh = train_on_few("pre-norm", 30, seed=0)
    assert seen > 0.99
    assert fresh > records.spread(record, "fresh, pre-norm")[0] - MARGIN


def test_recorded_claims_about_large_steps() -> None:
    record = records.load("normalization_steps")

    def end(name: str, warm_up: int) -> tuple[float, float]:
        return records.spread(record, f"{name}, warm-up {warm_up}, step 160")

    assert end("pre-norm", 0)[0] > 0.95
    assert records.median(record, "post-norm, warm-up 0, step 160") < 0.25
    assert records.median(record, "post-norm, warm-up 100, step 160") > 0.95
    assert records.spread(record, "post-norm, warm-up 100, step 60")[0] > 0.95
    fell = [r < 0.5 for r in record["values"]["post-norm, warm-up 100, step 160"]]
    assert sum(fell) == 1
    for warm_up in (0, 100):
        best = max(
            records.median(record, f"skip, warm-up {warm_up}, step {step}")
            for step in range(0, 160, 20)
        )
        last = records.median(record, f"skip, warm-up {warm_up}, step 160")
        assert last < 0.25
        assert best > last + 0.1


def test_recorded_claims_about_hops() -> None:
    record = records.load("normalization_hops")
    for layers in (1, 2, 3, 4):
        assert records.median(record, f"2 hops, {layers} layers") > 0.99
    low, high = records.spread(record, "4 hops, 1 layers")
    assert stops_short(2, 4) - 0.05 < low <= high < stops_short(2, 4) + 0.05
    assert records.median(record, "4 hops, 2 layers") > 0.95
