"""Training in NumPy: loss, rates, AdamW and clipping equal torch's; score; byte pairs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from arrays import difference_quotient, draw
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from transformer_lib.reference.training import (
    END_OF_WORD,
    AdamState,
    adamw_step,
    apply_bpe,
    batches_by_length,
    clip_by_norm,
    cross_entropy,
    cross_entropy_backward,
    exact_match,
    inverse_square_root,
    learn_bpe,
    log_softmax,
    smooth_targets,
    token_mean,
    warmup_cosine,
)

EXACT = 1e-12
TARGETS = np.array([[3, 0, 6, 2], [1, 5, 0, 0]])


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("pad_id", [None, 0, -100])
def test_equals_torch_and_its_gradient(smoothing: float, pad_id: int | None) -> None:
    logits = 3.0 * draw(0, 2, 4, 7)
    targets = TARGETS.copy()
    if pad_id == -100:
        targets[0, 1] = -100
    z = torch.from_numpy(logits).requires_grad_()
    wanted = F.cross_entropy(
        z.reshape(-1, 7),
        torch.from_numpy(targets).reshape(-1),
        ignore_index=-1 if pad_id is None else pad_id,
        label_smoothing=smoothing,
    )
    wanted.backward()
    got = cross_entropy(logits, targets, smoothing, pad_id)
    assert got == pytest.approx(wanted.item(), abs=EXACT)
    np.testing.assert_allclose(
        cross_entropy_backward(logits, targets, smoothing, pad_id),
        z.grad.numpy(),
        atol=EXACT,
    )


def test_gradient_equals_central_differences() -> None:
    logits, targets = draw(0, 2, 4, 7), TARGETS
    wanted = difference_quotient(lambda: cross_entropy(logits, targets, 0.1, 0), logits)
    np.testing.assert_allclose(
        cross_entropy_backward(logits, targets, 0.1, 0), wanted, atol=1e-8
    )


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), extra=st.integers(1, 9))
def test_more_padding_changes_nothing(seed: int, extra: int) -> None:
    logits = draw(seed, 1, 4, 5)
    targets = np.random.default_rng(seed).integers(1, 5, size=(1, 4))
    more = np.concatenate([logits, draw(seed + 1, 1, extra, 5)], axis=1)
    filled = np.concatenate([targets, np.zeros((1, extra), int)], axis=1)
    assert cross_entropy(more, filled, 0.1, pad_id=0) == pytest.approx(
        cross_entropy(logits, targets, 0.1, pad_id=0), abs=EXACT
    )
    gradient = cross_entropy_backward(more, filled, 0.1, pad_id=0)
    assert not gradient[:, 4:].any()


def test_the_mean_is_over_tokens_and_not_over_sentences() -> None:
    logits = draw(0, 2, 3, 4)
    targets = np.array([[1, 2, 3], [1, 0, 0]])
    each = -np.take_along_axis(log_softmax(logits), targets[..., None], axis=-1)[..., 0]
    assert cross_entropy(logits, targets, pad_id=0) == pytest.approx(
        (each[0].sum() + each[1, 0]) / 4
    )


def test_nothing_but_padding_costs_nothing() -> None:
    logits, targets = draw(0, 1, 3, 4), np.zeros((1, 3), int)
    assert cross_entropy(logits, targets, pad_id=0) == 0.0
    assert not cross_entropy_backward(logits, targets, pad_id=0).any()


def test_large_logits_do_not_overflow() -> None:
    logits = np.array([[1000.0, 0.0], [0.0, -1000.0]])
    assert cross_entropy(logits, np.array([1, 0])) == 500.0
    np.testing.assert_array_equal(
        cross_entropy_backward(logits, np.array([0, 0])), np.zeros((2, 2))
    )


def test_uniform_logits_cost_the_logarithm_of_the_vocabulary() -> None:
    loss = cross_entropy(np.zeros((5, 8)), np.arange(5), label_smoothing=0.3)
    assert loss == pytest.approx(np.log(8))


def test_smoothed_targets_are_a_distribution_over_the_whole_vocabulary() -> None:
    got = smooth_targets(np.array([2, 0]), 4, 0.2)
    np.testing.assert_allclose(
        got, [[0.05, 0.05, 0.85, 0.05], [0.85, 0.05, 0.05, 0.05]]
    )
    np.testing.assert_array_equal(
        smooth_targets(np.array([1]), 3, 0.0), [[0.0, 1.0, 0.0]]
    )


def test_each_row_of_the_gradient_sums_to_zero() -> None:
    gradient = cross_entropy_backward(draw(0, 2, 4, 7), TARGETS, 0.1, 0)
    np.testing.assert_allclose(gradient.sum(axis=-1), 0.0, atol=EXACT)


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (
            {"targets": np.array([1])},
            ValueError,
            "targets: got shape (1,), wanted (2,)",
        ),
        ({"targets": np.array([1.0, 2.0])}, TypeError, "targets: got dtype float64"),
        ({"targets": np.array([1, 3])}, ValueError, "targets: got 3, wanted numbers"),
        ({"targets": np.array([1, -1])}, ValueError, "targets: got -1"),
        ({"label_smoothing": 1.0}, ValueError, "label_smoothing: got 1.0"),
        ({"label_smoothing": -0.1}, ValueError, "label_smoothing: got -0.1"),
        ({"logits": np.full((2, 3), np.nan)}, ValueError, "logits: got NaN"),
        ({"logits": np.zeros((2, 0)), "targets": np.zeros(2, int)}, ValueError, "got"),
        ({"logits": np.array(1.0)}, ValueError, "targets: got shape (2,)"),
    ],
)
def test_bad_input_is_named(
    change: dict[str, Any], error: type[Exception], words: str
) -> None:
    arguments = {"logits": np.zeros((2, 3)), "targets": np.array([1, 2]), **change}
    with pytest.raises(error) as caught:
        cross_entropy(**arguments)
    assert words in str(caught.value)
    with pytest.raises(ValueError, match="logits: got shape"):
        log_softmax(np.zeros((2, 0)))


# The mean over micro-batches


def test_the_loss_of_micro_batches_is_the_loss_of_one_batch() -> None:
    logits, targets = draw(0, 6, 5), np.array([1, 2, 3, 4, 1, 2])
    cuts = [slice(0, 1), slice(1, 3), slice(3, 6)]
    counts = np.array([1, 2, 3])
    means = np.array([cross_entropy(logits[cut], targets[cut], 0.1) for cut in cuts])
    whole = cross_entropy(logits, targets, 0.1)
    assert token_mean(means * counts, counts) == pytest.approx(whole, abs=EXACT)
    assert abs(means.mean() - whole) > 0.01  # the mean of means is something else


def test_no_real_token_costs_nothing() -> None:
    assert token_mean(np.zeros(2), np.zeros(2, int)) == 0.0


# Learning rates


def _lambda_rates(
    share: Callable[[int], float], updates: int, lr: float = 1.0
) -> list[float]:
    """The rates of each update as torch's LambdaLR sets them: it counts from 0."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: share(k + 1))
    rates = []
    for _ in range(updates):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return rates


@pytest.mark.parametrize(("d_model", "warmup"), [(512, 4000), (64, 3), (7, 1)])
def test_inverse_square_root_is_the_papers_formula(d_model: int, warmup: int) -> None:
    rates = _lambda_rates(lambda s: inverse_square_root(s, d_model, warmup), updates=12)
    steps = np.arange(1, 13, dtype=np.float64)
    down, up = 1 / np.sqrt(steps), steps / (warmup * np.sqrt(warmup))
    np.testing.assert_allclose(
        rates, np.minimum(down, up) / np.sqrt(d_model), rtol=EXACT
    )


def test_the_base_model_of_2017_reaches_seven_ten_thousandths() -> None:
    steps = [0, 1, 100, 3999, 4000, 4001, 8000]
    rates = {s: inverse_square_root(s, 512, 4000) for s in steps}
    assert rates[0] == 0.0
    assert max(rates, key=lambda s: rates[s]) == 4000
    assert rates[4000] == pytest.approx(6.9877e-4, abs=1e-8)
    assert rates[8000] == pytest.approx(rates[4000] / np.sqrt(2), rel=EXACT)


def test_warmup_cosine_equals_torchs_schedulers_in_a_row() -> None:
    steps, warmup, final, lr = 30, 6, 0.05, 2e-3
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    rates = torch.optim.lr_scheduler
    up = rates.LinearLR(optimizer, 1 / warmup, 1.0, total_iters=warmup - 1)
    down = rates.CosineAnnealingLR(optimizer, steps - warmup, eta_min=final * lr)
    schedule = rates.SequentialLR(optimizer, [up, down], milestones=[warmup - 1])
    wanted = []
    for _ in range(steps):
        wanted.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    got = _lambda_rates(lambda s: warmup_cosine(s, steps, warmup, final), steps, lr)
    np.testing.assert_allclose(got, wanted, atol=EXACT)


@settings(max_examples=50, deadline=None)
@given(warmup=st.integers(0, 20), more=st.integers(1, 30), final=st.floats(0, 1))
def test_warmup_cosine_rises_to_1_and_falls_to_the_final_share(
    warmup: int, more: int, final: float
) -> None:
    steps = warmup + more
    shares = [warmup_cosine(s, steps, warmup, final) for s in range(steps + 5)]
    assert shares[warmup] == pytest.approx(1.0)
    assert (np.diff(shares[: warmup + 1]) > 0).all()
    assert (np.diff(shares[warmup:]) <= 1e-15).all()
    np.testing.assert_allclose(shares[steps:], final, atol=EXACT)


# AdamW


@pytest.mark.parametrize("betas", [(0.9, 0.98), (0.0, 0.999), (0.5, 0.0)])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_adamw_equals_torch_for_many_steps(
    betas: tuple[float, float], weight_decay: float
) -> None:
    weights, target = draw(0, 4, 3), draw(1, 4, 3)
    theirs = torch.nn.Parameter(torch.from_numpy(weights.copy()))
    settings_ = {"lr": 0.05, "betas": betas, "eps": 1e-6, "weight_decay": weight_decay}
    optimizer = torch.optim.AdamW([theirs], **settings_)
    state = None
    for _ in range(12):
        theirs.grad = theirs.detach() - torch.from_numpy(target)
        optimizer.step()
        weights, state = adamw_step(weights, weights - target, state, **settings_)
        np.testing.assert_allclose(weights, theirs.detach().numpy(), atol=EXACT)
    assert state is not None
    kept = optimizer.state[theirs]
    np.testing.assert_allclose(state.mean, kept["exp_avg"].numpy(), atol=EXACT)
    np.testing.assert_allclose(state.square, kept["exp_avg_sq"].numpy(), atol=EXACT)
    assert state.step == int(kept["step"]) == 12


def test_the_first_step_is_as_long_as_the_rate_however_large_the_gradient() -> None:
    for size in (1e-3, 1.0, 1e3):
        weights, _ = adamw_step(np.zeros(2), np.array([size, -size]), lr=0.1)
        np.testing.assert_allclose(weights, [-0.1, 0.1], rtol=1e-5)


def test_decay_does_not_pass_through_the_moments() -> None:
    weights, state = adamw_step(
        np.array([2.0]), np.array([0.0]), lr=0.1, weight_decay=0.5
    )
    np.testing.assert_allclose(weights, [2.0 * 0.95])
    assert not state.mean.any()
    assert not state.square.any()


def test_adamw_leaves_its_arguments_alone() -> None:
    weights, gradient = draw(0, 3), draw(1, 3)
    _, state = adamw_step(weights, gradient, lr=0.1)
    before = [a.copy() for a in (weights, gradient, state.mean, state.square)]
    adamw_step(weights, gradient, state, lr=0.1)
    for now, then in zip(
        (weights, gradient, state.mean, state.square), before, strict=True
    ):
        np.testing.assert_array_equal(now, then)


# Clipping


@pytest.mark.parametrize("largest", [0.1, 2.0, 100.0])
def test_clipping_equals_torch(largest: float) -> None:
    gradients = [draw(0, 4, 3), draw(1, 3), draw(2, 1)]
    theirs = [torch.nn.Parameter(torch.zeros(g.shape).double()) for g in gradients]
    for parameter, gradient in zip(theirs, gradients, strict=True):
        parameter.grad = torch.from_numpy(gradient.copy())
    wanted_norm = torch.nn.utils.clip_grad_norm_(theirs, largest)
    clipped, norm = clip_by_norm(gradients, largest)
    assert norm == pytest.approx(wanted_norm.item(), abs=EXACT)
    for got, parameter in zip(clipped, theirs, strict=True):
        np.testing.assert_allclose(got, parameter.grad.numpy(), atol=EXACT)


def test_clipping_keeps_the_direction_and_leaves_short_gradients_alone() -> None:
    gradients = [np.array([3.0, 0.0]), np.array([[-4.0]])]
    clipped, norm = clip_by_norm(gradients, 1.0)
    assert norm == 5.0
    np.testing.assert_allclose(clipped[0], [0.6, 0.0], atol=1e-6)
    np.testing.assert_allclose(clipped[1], [[-0.8]], atol=1e-6)
    same, _ = clip_by_norm(gradients, 6.0)
    for got, given_ in zip(same, gradients, strict=True):
        np.testing.assert_array_equal(got, given_)


# Exact match


def test_exact_match_looks_up_to_the_first_end_and_no_further() -> None:
    wanted = np.array([[5, 6, 2, 0], [5, 6, 2, 0], [5, 6, 2, 0], [5, 6, 2, 0]])
    written = np.array(
        [
            [5, 6, 2, 7, 7],  # what stands behind the end does not count
            [5, 6, 7, 2, 0],  # goes on
            [5, 2, 6, 2, 0],  # stops too early
            [5, 6, 0, 0, 0],  # never ends
        ]
    )
    assert exact_match(written, wanted, eos_id=2) == 25.0
    assert exact_match(wanted, wanted, eos_id=2) == 100.0


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000))
def test_exact_match_counts_sentences_that_are_equal_as_lists(seed: int) -> None:
    rng = np.random.default_rng(seed)
    written, wanted = rng.integers(1, 4, (2, 9, 3))
    written[:, -1] = wanted[:, -1] = 3
    cut = [
        [row[: list(row).index(3)].tolist() for row in ids] for ids in (written, wanted)
    ]
    equal = [a == b for a, b in zip(*cut, strict=True)]
    assert exact_match(written, wanted, eos_id=3) == pytest.approx(
        100 * sum(equal) / 9, abs=EXACT
    )


# Batches


@settings(max_examples=50, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 20), max_size=40), max_tokens=st.integers(20, 90)
)
def test_batches_hold_every_sentence_once_within_the_budget(
    lengths: list[int], max_tokens: int
) -> None:
    n = np.array(lengths, dtype=int)
    batches = batches_by_length(n, max_tokens)
    assert sorted(place for batch in batches for place in batch) == list(range(len(n)))
    assert all(len(batch) * n[batch].max() <= max_tokens for batch in batches)
    for batch, after in itertools.pairwise(batches):
        assert n[batch].max() <= n[after].min()
        assert (len(batch) + 1) * n[after[0]] > max_tokens  # not closed too early


# Byte-pair encoding

WORDS = {"low": 5, "lower": 2, "newest": 6, "widest": 3}


def test_the_merges_of_sennrichs_example() -> None:
    pairs = learn_bpe(WORDS, merges=4)
    # es 9 times, then est 9, est</w> 9; of lo (7) and ow (7) the first in the alphabet
    assert pairs == [("e", "s"), ("es", "t"), ("est", END_OF_WORD), ("l", "o")]


def test_pieces_of_a_word_that_was_never_seen() -> None:
    pieces = apply_bpe("lowest", learn_bpe(WORDS, merges=5))
    assert pieces == ["low", "est" + END_OF_WORD]


def test_learning_stops_when_every_word_is_one_piece() -> None:
    pairs = learn_bpe({"ab": 1, "aaa": 1}, merges=100)
    assert apply_bpe("ab", pairs) == ["ab" + END_OF_WORD]
    assert apply_bpe("aaa", pairs) == ["aaa" + END_OF_WORD]
    assert learn_bpe({}, merges=3) == learn_bpe({"ab": 1}, merges=0) == []


def test_a_run_of_one_letter_is_joined_from_the_left() -> None:
    assert apply_bpe("aaaaa", [("a", "a")]) == ["aa", "aa", "a", END_OF_WORD]


TEXT = st.dictionaries(
    st.text("abcde", min_size=1, max_size=7), st.integers(1, 50), max_size=12
)


@settings(max_examples=25, deadline=None)
@given(words=TEXT, merges=st.integers(0, 25))
def test_the_order_of_the_words_does_not_matter_and_pieces_spell_the_word(
    words: dict[str, int], merges: int
) -> None:
    pairs = learn_bpe(words, merges)
    assert learn_bpe(dict(reversed(words.items())), merges) == pairs
    assert len(set(pairs)) == len(pairs) <= merges
    for word in [*words, "abcabc"]:
        assert "".join(apply_bpe(word, pairs)) == word + END_OF_WORD


def _with_sign(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The end mark as one sign: the tokenizers library sees it as a letter."""
    return [
        (a.replace(END_OF_WORD, "_"), b.replace(END_OF_WORD, "_")) for a, b in pairs
    ]


@settings(max_examples=30, deadline=None)
@given(words=TEXT, merges=st.integers(0, 25))
def test_pieces_are_those_of_the_tokenizers_library(
    words: dict[str, int], merges: int
) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    pairs = learn_bpe(words, merges)
    signed = _with_sign(pairs)
    vocabulary = dict.fromkeys([*"abcde_", *(a + b for a, b in signed)])
    ids = {piece: i for i, piece in enumerate(vocabulary)}
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=ids, merges=signed))
    for word in [*words, "abcabcdede"]:
        ours = [piece.replace(END_OF_WORD, "_") for piece in apply_bpe(word, pairs)]
        assert theirs.encode(word + "_").tokens == ours


def test_merges_are_those_that_the_tokenizers_library_learns() -> None:
    """Up to the first tie that it decides by the numbers of the pieces."""
    tokenizers = pytest.importorskip("tokenizers")
    words = {
        "lower": 41, "lowest": 29, "newer": 67, "newest": 53, "wide": 31, "wider": 23,
        "widest": 17, "slow": 11, "snow": 7,
    }  # fmt: skip
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=100, show_progress=False)
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
    text = [word + "_" for word, count in words.items() for _ in range(count)]
    theirs.train_from_iterator(text, trainer)
    wanted = [tuple(pair) for pair in json.loads(theirs.to_str())["model"]["merges"]]
    assert _with_sign(learn_bpe(words, merges=19)) == wanted[:19]


# Bad input


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: token_mean(np.zeros(2), np.zeros(3, int)),
            ValueError,
            "counts: got shape (3,)",
        ),
        (
            lambda: token_mean(np.zeros(1), np.ones(1)),
            TypeError,
            "counts: got dtype float64",
        ),
        (
            lambda: token_mean(np.zeros(1), np.array([-1])),
            ValueError,
            "counts: got -1, wanted 0",
        ),
        (
            lambda: inverse_square_root(-1, 4, 4),
            ValueError,
            "step: got -1, wanted 0 or more",
        ),
        (
            lambda: inverse_square_root(1, 0, 4),
            ValueError,
            "d_model: got 0, wanted 1 or more",
        ),
        (
            lambda: inverse_square_root(1, 4, 0),
            ValueError,
            "warmup: got 0, wanted 1 or more",
        ),
        (
            lambda: warmup_cosine(1, 5, 5),
            ValueError,
            "warmup: got 5, wanted below steps",
        ),
        (lambda: warmup_cosine(1, 5, -1), ValueError, "warmup: got -1"),
        (lambda: warmup_cosine(1, 5, 1, 1.5), ValueError, "final: got 1.5"),
        (lambda: warmup_cosine(-1, 5, 1), ValueError, "step: got -1"),
        (
            lambda: adamw_step(np.zeros(2), np.zeros(3), lr=0.1),
            ValueError,
            "gradient: got shape (3,)",
        ),
        (
            lambda: adamw_step(
                np.zeros(2), np.zeros(2), AdamState(np.zeros(2), np.zeros(1), 1), lr=0.1
            ),
            ValueError,
            "state: got shapes (2,) and (1,)",
        ),
        (
            lambda: adamw_step(np.zeros(2), np.zeros(2), lr=-0.1),
            ValueError,
            "lr: got -0.1",
        ),
        (
            lambda: adamw_step(np.zeros(2), np.zeros(2), lr=0.1, betas=(0.9, 1.0)),
            ValueError,
            "betas: got 1.0",
        ),
        (
            lambda: adamw_step(np.zeros(2), np.zeros(2), lr=0.1, weight_decay=-1.0),
            ValueError,
            "weight_decay: got -1.0",
        ),
        (lambda: clip_by_norm([np.zeros(2)], 0.0), ValueError, "largest: got 0.0"),
        (
            lambda: clip_by_norm([np.array([np.nan])], 1.0),
            ValueError,
            "gradients: got NaN",
        ),
        (
            lambda: exact_match(np.zeros((0, 2), int), np.zeros((0, 2), int), 2),
            ValueError,
            "written: got no sentence",
        ),
        (
            lambda: exact_match(np.zeros((1, 2), int), np.zeros((2, 2), int), 2),
            ValueError,
            "written: got shape (1, 2)",
        ),
        (
            lambda: batches_by_length(np.array([3, 12]), 10),
            ValueError,
            "lengths: got 12, wanted from 1",
        ),
        (lambda: batches_by_length(np.array([0, 2]), 10), ValueError, "lengths: got 0"),
        (lambda: learn_bpe({"a": 1}, -1), ValueError, "merges: got -1"),
        (lambda: learn_bpe({"ab": -2}, 1), ValueError, "words['ab']: got -2"),
    ],
)
def test_bad_input_of_the_others_is_named(
    call: Callable[[], Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
