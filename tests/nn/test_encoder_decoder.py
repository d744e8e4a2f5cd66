"""The whole model: equal to the reference and to torch.nn; everything it promises."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from arrays import draw, leaves, some_mask
from hypothesis import given, settings
from hypothesis import strategies as st
from porting import tensor, torch_decoder_layer, torch_encoder_layer, torch_transformer
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from transformer_lib import reference
from transformer_lib.nn.config import TransformerConfig
from transformer_lib.nn.encoder_decoder import (
    DecoderLayer,
    Encoder,
    EncoderLayer,
    Transformer,
)
from transformer_lib.nn.multi_head import KeyValueCache

EXACT = 1e-12
SINGLE = 1e-5
ORDERS = pytest.mark.parametrize("norm_first", [False, True])
POSITIONS = ("sinusoidal", "learned", "rope", "alibi", "relative", "none")
PRECISIONS = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, EXACT), (torch.float32, SINGLE)]
)

SOURCE = torch.tensor([[3, 5, 8, 0, 0], [1, 2, 3, 4, 5]])  # 0 is padding
TARGET = torch.tensor([[1, 10, 4], [1, 7, 2]])


def config(**changes: Any) -> TransformerConfig:
    small: dict[str, Any] = {
        "src_vocab_size": 9,
        "tgt_vocab_size": 11,
        "d_model": 12,
        "num_heads": 3,
        "d_ff": 20,
        "num_encoder_layers": 2,
        "num_decoder_layers": 3,
        "max_len": 24,
        "dropout": 0.0,
    }
    return TransformerConfig(**{**small, **changes})


def perturbed(module: nn.Module) -> Any:
    """Move gamma and beta off 1 and 0, or a missing normalisation goes unseen."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.endswith(("gamma", "beta", "table")):
                parameter += 0.5 * torch.randn(parameter.shape, generator=generator)
    return module


def model(**changes: Any) -> Any:
    generator = torch.Generator().manual_seed(0)
    return perturbed(Transformer(config(**changes), generator)).double()


# --- equal to the reference -----------------------------------------------------------


@ORDERS
@PRECISIONS
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("tied", [False, True])
def test_equals_the_reference(
    norm_first: bool,
    dtype: torch.dtype,
    tolerance: float,
    activation: Any,
    tied: bool,
) -> None:
    ours = model(norm_first=norm_first, activation=activation, tie_embeddings=tied)
    ours = ours.to(dtype)
    source, target = SOURCE.numpy(), TARGET.numpy()
    wanted = reference.transformer(
        *(source, target, ours.reference_parameters(), 3),
        *(reference.padding_mask(source, 0), norm_first, activation),
    )
    got = ours(SOURCE, TARGET).detach().numpy()
    np.testing.assert_allclose(got, wanted, atol=tolerance, rtol=tolerance)


@ORDERS
@pytest.mark.parametrize("tied", [False, True])
def test_loss_and_gradients_equal_the_reference(norm_first: bool, tied: bool) -> None:
    ours = model(norm_first=norm_first, tie_embeddings=tied)
    target = torch.tensor([[1, 10, 4, 2, 0], [1, 7, 2, 0, 0]])
    loss = ours.loss(SOURCE, target, label_smoothing=0.1)
    loss.backward()
    rest = (ours.reference_parameters(), 3)
    mask = reference.padding_mask(SOURCE.numpy(), 0)
    inputs, labels = target.numpy()[:, :-1], target.numpy()[:, 1:]
    logits = reference.transformer(SOURCE.numpy(), inputs, *rest, mask, norm_first)
    assert loss.item() == pytest.approx(
        reference.cross_entropy(logits, labels, 0.1, pad_id=0), abs=EXACT
    )
    wanted = reference.transformer_backward(
        reference.cross_entropy_backward(logits, labels, 0.1, pad_id=0),
        *(SOURCE.numpy(), inputs, *rest, mask, norm_first),
    )
    gradients = copy.deepcopy(ours)
    for mine, its in zip(gradients.parameters(), ours.parameters(), strict=True):
        mine.data = its.grad
    for got, right in zip(
        leaves(gradients.reference_parameters()), leaves(wanted), strict=True
    ):
        np.testing.assert_allclose(got, right, atol=1e-11, rtol=1e-9)


# --- equal to torch.nn ----------------------------------------------------------------


@ORDERS
@pytest.mark.parametrize("masked", [False, True])
def test_encoder_layer_equals_torch(norm_first: bool, masked: bool) -> None:
    ours = perturbed(EncoderLayer(12, 3, 20, norm_first=norm_first).double())
    theirs = torch_encoder_layer(ours.reference_parameters(), 3, norm_first)
    x = tensor(draw(0, 2, 5, 12))
    mask = tensor(some_mask(1, 2, 3, 5, 5, dead=False)) if masked else None
    wanted = theirs(x, src_mask=None if mask is None else ~mask.flatten(0, 1))
    torch.testing.assert_close(ours(x, mask), wanted, atol=EXACT, rtol=EXACT)


@ORDERS
@pytest.mark.parametrize("masked", [False, True])
def test_decoder_layer_equals_torch(norm_first: bool, masked: bool) -> None:
    ours = perturbed(DecoderLayer(12, 3, 20, norm_first=norm_first).double())
    theirs = torch_decoder_layer(ours.reference_parameters(), 3, norm_first)
    x, memory = tensor(draw(0, 2, 4, 12)), tensor(draw(1, 2, 5, 12))
    past = torch.ones(4, 4, dtype=torch.bool).tril()
    mask = memory_mask = None
    of_target, of_memory = ~past, None
    if masked:
        mask = tensor(some_mask(2, 2, 3, 4, 4, dead=False))
        memory_mask = tensor(some_mask(3, 2, 1, 1, 5, dead=False))
        of_target, of_memory = ~(mask & past).flatten(0, 1), ~memory_mask[:, 0, 0]
    wanted = theirs(x, memory, tgt_mask=of_target, memory_key_padding_mask=of_memory)
    got = ours(x, memory, mask, memory_mask)
    torch.testing.assert_close(got, wanted, atol=EXACT, rtol=EXACT)


@ORDERS
@pytest.mark.parametrize("masked", [False, True])
def test_the_stacks_equal_torch(norm_first: bool, masked: bool) -> None:
    """``nn.Transformer`` always ends its stacks in a normalisation; ours if asked."""
    ours = model(norm_first=norm_first, final_norm=True)
    theirs = torch_transformer(ours.reference_parameters(), 3, norm_first)
    x, y = tensor(draw(0, 2, 5, 12)), tensor(draw(1, 2, 4, 12))
    padding = torch.tensor([[True] * 3 + [False] * 2, [True] * 5])
    seen = padding[:, None, None, :] if masked else None
    hidden = ~padding if masked else None
    wanted = theirs(
        *(x, y),
        tgt_mask=~torch.ones(4, 4, dtype=torch.bool).tril(),
        src_key_padding_mask=hidden,
        memory_key_padding_mask=hidden,
    )
    got = ours.decoder(y, ours.encoder(x, seen), memory_mask=seen)
    torch.testing.assert_close(got, wanted, atol=EXACT, rtol=EXACT)
    without = model(norm_first=norm_first, final_norm=False)
    assert without.encoder.norm is None
    assert (without.encoder(x, seen) - ours.encoder(x, seen)).abs().max() > 1e-3


def test_the_published_numbers_of_parameters() -> None:
    with torch.device("meta"):
        base = Transformer(TransformerConfig.base(vocab_size=37_000))
        big = Transformer(TransformerConfig.big(vocab_size=37_000))
    assert base.num_parameters() == 63_082_496
    assert big.num_parameters() == 214_245_376
    assert "63,082,496 parameters" in repr(base)


def test_parameters_term_by_term() -> None:
    ours, d, ff = model(), 12, 20
    attention = 4 * (d * d + d)
    feed_forward = 2 * d * ff + ff + d
    encoder = 2 * (attention + feed_forward + 2 * 2 * d)
    decoder = 3 * (2 * attention + feed_forward + 3 * 2 * d)
    assert ours.num_parameters() == (9 + 11) * d + encoder + decoder
    untied = model(tie_embeddings=False, norm_first=True)
    assert untied.num_parameters() == ours.num_parameters() + 11 * d + 2 * 2 * d
    shared = model(src_vocab_size=None, tgt_vocab_size=None, vocab_size=11)
    assert shared.num_parameters() == ours.num_parameters() - 9 * d
    assert shared.source_embedding is shared.target_embedding


def test_flops_are_what_torch_counts() -> None:
    ours = model(tie_embeddings=False)
    written_out = sdpa_kernel(
        SDPBackend.MATH
    )  # the counter does not know the fused one
    with written_out, FlopCounterMode(display=False) as counter:
        ours(SOURCE, TARGET)
    assert ours.flops(5, 3, batch=2) == counter.get_total_flops()
    assert ours.flops(5, 3, training=True) == 3 * ours.flops(5, 3)


# --- properties -----------------------------------------------------------------------


@pytest.mark.parametrize("positions", POSITIONS)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 1000), place=st.integers(1, 4))
def test_changing_a_later_target_leaves_earlier_logits_alone(
    positions: str, seed: int, place: int
) -> None:
    ours = model(positions=positions, d_model=12, num_heads=2)
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(11, (2, 5), generator=generator)
    changed = target.clone()
    changed[:, place:] = (changed[:, place:] + 1) % 11
    before, after = ours(SOURCE, target), ours(SOURCE, changed)
    torch.testing.assert_close(before[:, :place], after[:, :place], atol=EXACT, rtol=0)
    assert (before - after)[:, place:].abs().max() > 1e-4


@pytest.mark.parametrize("positions", POSITIONS)
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 1000), extra=st.integers(1, 6))
def test_more_padding_changes_nothing(positions: str, seed: int, extra: int) -> None:
    ours = model(positions=positions, d_model=12, num_heads=2)
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(1, 9, (2, 4), generator=generator)
    zeros = torch.zeros(2, extra, dtype=torch.int64)
    longer = torch.cat([source, zeros], 1)
    more_targets = torch.cat([TARGET, zeros], 1)
    few = ours(source, TARGET)
    torch.testing.assert_close(
        ours(longer, more_targets)[:, :3], few, atol=EXACT, rtol=0
    )
    torch.testing.assert_close(
        ours.loss(longer, more_targets), ours.loss(source, TARGET), atol=EXACT, rtol=0
    )


@settings(max_examples=8, deadline=None)
@given(order=st.permutations(range(2)), seed=st.integers(0, 1000))
def test_sentences_of_a_batch_do_not_meet(order: list[int], seed: int) -> None:
    ours = model()
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(11, (2, 4), generator=generator)
    together = ours(SOURCE, target)
    torch.testing.assert_close(
        ours(SOURCE[order], target[order]), together[order], atol=EXACT, rtol=0
    )
    for i in range(2):
        alone = ours(SOURCE[i : i + 1], target[i : i + 1])
        torch.testing.assert_close(alone[0], together[i], atol=EXACT, rtol=0)


@settings(max_examples=8, deadline=None)
@given(order=st.permutations(range(4)))
def test_without_positions_the_order_of_the_source_does_not_matter(
    order: list[int],
) -> None:
    source = torch.tensor([[3, 5, 8, 2]])
    blind, seeing = model(positions="none"), model()
    torch.testing.assert_close(
        blind(source[:, order], TARGET[:1]),
        blind(source, TARGET[:1]),
        atol=EXACT,
        rtol=0,
    )
    if order != [0, 1, 2, 3]:
        moved = seeing(source[:, order], TARGET[:1]) - seeing(source, TARGET[:1])
        assert moved.abs().max() > 1e-4


@ORDERS
@pytest.mark.parametrize("positions", POSITIONS)
def test_a_source_of_nothing_but_padding(norm_first: bool, positions: str) -> None:
    ours = model(norm_first=norm_first, positions=positions, num_heads=2)
    source = torch.tensor([[0, 0, 0], [4, 2, 0]])
    logits = ours(source, TARGET)
    assert logits.isfinite().all()
    # The dead source says nothing: another dead source, longer, says the same.
    longer = torch.zeros(1, 6, dtype=torch.int64)
    torch.testing.assert_close(
        ours(longer, TARGET[:1])[0], logits[0], atol=EXACT, rtol=0
    )
    logits[0].sum().backward()
    gradients = [p.grad for p in ours.encoder.parameters() if p.grad is not None]
    assert all(not gradient.any() for gradient in gradients)
    assert all(p.grad.isfinite().all() for p in ours.parameters() if p.grad is not None)
    state = ours.start(source, max_len=4)
    step = ours.step(TARGET[:, 0], state)
    torch.testing.assert_close(
        step, ours(source, TARGET[:, :1])[:, 0], atol=EXACT, rtol=0
    )


@ORDERS
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_steps_give_what_the_whole_target_gives(
    norm_first: bool, positions: str, activation: Any
) -> None:
    ours = model(
        norm_first=norm_first, positions=positions, activation=activation, num_heads=2
    )
    target = torch.tensor([[1, 10, 4, 3, 7, 0], [1, 7, 2, 0, 0, 5]])
    whole = ours(SOURCE, target)
    state = ours.start(SOURCE, max_len=6)
    steps = [ours.step(target[:, t], state) for t in range(6)]
    torch.testing.assert_close(torch.stack(steps, 1), whole, atol=EXACT, rtol=0)
    assert state.length == 6


def test_a_state_follows_its_rows_within_and_across_sentences() -> None:
    ours = model()
    target = torch.tensor([[1, 10, 4], [1, 7, 2]])
    for rows in ([0, 0, 1, 1], [1, 0], [1, 1, 1], [0]):
        index = torch.tensor(rows)
        state = ours.start(SOURCE, max_len=4)
        for t in range(2):
            ours.step(target[:, t], state)
        state.select(index)
        assert state.batch == len(rows)
        got = ours.step(target[index, 2], state)
        wanted = ours(SOURCE, target)[index, 2]
        torch.testing.assert_close(got, wanted, atol=EXACT, rtol=0)
        before = state.memory
        state.select(torch.arange(len(rows)))
        assert state.memory is before  # nothing moved, nothing copied


def test_a_stack_of_encoder_layers_can_be_a_language_model() -> None:
    stack = perturbed(Encoder(config(positions="rope", num_heads=2))).double()
    x = tensor(draw(0, 2, 5, 12))
    whole = stack(x, is_causal=True)
    caches = [KeyValueCache(2, 2, 5, 6, like=x) for _ in stack.layers]
    steps = [stack(x[:, t : t + 1], is_causal=True, caches=caches) for t in range(5)]
    torch.testing.assert_close(torch.cat(steps, 1), whole, atol=EXACT, rtol=0)
    changed = x.clone()
    changed[:, 3:] += 1
    torch.testing.assert_close(
        stack(changed, is_causal=True)[:, :3], whole[:, :3], atol=EXACT, rtol=0
    )


# --- attention maps -------------------------------------------------------------------


def test_attention_maps_are_taken_on_the_models_own_path() -> None:
    ours = model(norm_first=True)
    maps = ours.attention_maps(SOURCE, TARGET)
    assert [len(part) for part in maps] == [2, 3, 3]
    assert maps.encoder[0].shape == (2, 3, 5, 5)
    assert maps.decoder[0].shape == (2, 3, 3, 3)
    assert maps.cross[0].shape == (2, 3, 3, 5)
    for part in maps:
        for weights in part:
            torch.testing.assert_close(
                weights.sum(-1), torch.ones(weights.shape[:-1]).double()
            )
    for weights in (*maps.encoder, *maps.cross):  # the masks are in force
        assert not weights[0, ..., 3:].any()
    for weights in maps.decoder:
        assert not weights.triu(1).any()
    # What the reference computes for the first layer is what the map shows.
    p = ours.reference_parameters()
    X = reference.embed(SOURCE.numpy(), p.source_embedding)
    layer = p.encoder[0]
    Z = reference.layer_norm(X, *layer.norm_1)
    mask = reference.padding_mask(SOURCE.numpy(), 0)
    _, wanted = reference.multi_head_attention(Z, Z, layer.self_attention, 3, mask)
    np.testing.assert_allclose(maps.encoder[0].numpy(), wanted, atol=EXACT)


def test_taking_maps_does_not_change_what_the_model_computes() -> None:
    ours = model()
    maps: list[Tensor] = []
    mask = ours.source_mask(SOURCE)
    torch.testing.assert_close(
        ours.encode(SOURCE, mask, maps), ours.encode(SOURCE, mask), atol=EXACT, rtol=0
    )
    assert len(maps) == 2


# --- masks ----------------------------------------------------------------------------


def test_a_source_without_padding_needs_no_mask() -> None:
    ours = model()
    assert ours.source_mask(torch.tensor([[3, 5], [1, 2]])) is None
    mask = ours.source_mask(SOURCE)
    assert mask.shape == (2, 1, 1, 5)
    assert mask[0, 0, 0].tolist() == [True] * 3 + [False] * 2


def test_a_mask_of_ones_own_replaces_the_one_for_padding() -> None:
    ours = model()
    mask = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    mask[1, ..., 0] = False
    changed = SOURCE.clone()
    changed[1, 0] = 7
    torch.testing.assert_close(
        ours(changed, TARGET, mask), ours(SOURCE, TARGET, mask), atol=EXACT, rtol=0
    )
    assert (ours(SOURCE, TARGET, mask) - ours(SOURCE, TARGET)).abs().max() > 1e-4


@pytest.mark.no_shape_hook
@pytest.mark.parametrize("shape", [(2, 3, 1, 5), (2, 1, 5, 5), (2, 5)])
def test_a_source_mask_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="mask: got shape"):
        model().source_mask(SOURCE, torch.ones(shape, dtype=torch.bool))


# --- life outside ---------------------------------------------------------------------


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_safetensors_with_tied_weights(
    tied: bool, shared: bool, tmp_path: Path
) -> None:
    vocabulary = (
        {"vocab_size": 11, "src_vocab_size": None, "tgt_vocab_size": None}
        if shared
        else {}
    )
    changes = {**vocabulary, "tie_embeddings": tied, "positions": "learned"}
    ours = model(**changes)
    safetensors.torch.save_file(ours.state_dict(), tmp_path / "model.safetensors")
    other = Transformer(config(**changes)).double()
    other.load_state_dict(safetensors.torch.load_file(tmp_path / "model.safetensors"))
    torch.testing.assert_close(
        other(SOURCE, TARGET), ours(SOURCE, TARGET), atol=0, rtol=0
    )
    if tied:
        assert other.head is other.target_embedding.weight


def test_a_deep_copy_is_equal_and_apart_and_stays_tied() -> None:
    ours = model()
    other = copy.deepcopy(ours)
    torch.testing.assert_close(
        other(SOURCE, TARGET), ours(SOURCE, TARGET), atol=0, rtol=0
    )
    with torch.no_grad():
        other.target_embedding.weight += 1
    assert other.head is other.target_embedding.weight
    assert not torch.equal(other(SOURCE, TARGET), ours(SOURCE, TARGET))


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("length", [1, 2])
def test_empty_batches_and_single_tokens(batch: int, length: int) -> None:
    ours = model()
    ids = torch.ones(batch, length, dtype=torch.int64)
    assert ours(ids, ids).shape == (batch, length, 11)
    assert ours.start(ids, max_len=3).batch == batch
    if length == 2:
        assert ours.loss(ids, ids).isfinite()


def test_inputs_that_are_not_contiguous_and_of_32_bits() -> None:
    ours = model()
    turned = SOURCE.T.contiguous().T
    assert not turned.is_contiguous()
    for source in (turned, SOURCE.int()):
        torch.testing.assert_close(
            ours(source, TARGET), ours(SOURCE, TARGET), atol=0, rtol=0
        )


@ORDERS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mode", ["autocast", "cast"])
@pytest.mark.parametrize("train", [False, True])
def test_half_precision(
    norm_first: bool, dtype: torch.dtype, mode: str, train: bool
) -> None:
    ours = model(norm_first=norm_first).float().train(train)
    wanted = ours(SOURCE, TARGET)
    if mode == "cast":
        ours = copy.deepcopy(ours).to(dtype)
    with torch.autocast("cpu", dtype, enabled=mode == "autocast"):
        logits = ours(SOURCE, TARGET)
        loss = ours.loss(SOURCE, TARGET)
        state = ours.start(SOURCE, max_len=3)
        step = ours.step(TARGET[:, 0], state)
    assert logits.dtype == dtype
    size = wanted.abs().max()
    assert (logits.float() - wanted).abs().max() < 5e-2 * size
    assert (step.float() - wanted[:, 0]).abs().max() < 5e-2 * size
    loss.backward()
    assert all(p.grad.isfinite().all() for p in ours.parameters())
    assert all(p.grad.dtype == p.dtype for p in ours.parameters())


@pytest.mark.no_shape_hook
@pytest.mark.parametrize("positions", ["sinusoidal", "rope", "relative"])
def test_compiles_in_one_piece(positions: str) -> None:
    ours = model(
        positions=positions, num_heads=2, num_encoder_layers=1, num_decoder_layers=1
    )
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(
        compiled(SOURCE, TARGET), ours(SOURCE, TARGET), atol=EXACT, rtol=0
    )


@pytest.mark.no_shape_hook
def test_exports_with_any_batch_and_length() -> None:
    ours = model(num_encoder_layers=1, num_decoder_layers=1).eval()
    batch, n_s, n_t = (
        torch.export.Dim(name, min=2, max=20) for name in ("batch", "n_s", "n_t")
    )
    program = torch.export.export(
        ours,
        (SOURCE, TARGET),
        dynamic_shapes=({0: batch, 1: n_s}, {0: batch, 1: n_t}),
    )
    exported = program.module()
    other_source = torch.tensor([[4, 2, 3, 0], [1, 0, 0, 0], [5, 6, 7, 8]])
    other_target = torch.tensor([[1, 2], [3, 4], [5, 6]])
    for source, target in ((SOURCE, TARGET), (other_source, other_target)):
        torch.testing.assert_close(
            exported(source, target), ours(source, target), atol=EXACT, rtol=0
        )


def test_first_values_come_from_the_generator() -> None:
    one, two = (
        Transformer(config(positions="learned"), torch.Generator().manual_seed(3))
        for _ in "ab"
    )
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=0, rtol=0)
    other = Transformer(config(positions="learned"), torch.Generator().manual_seed(4))
    assert not torch.equal(one.head, other.head)
    # Rows of the embedding have length about 1, times sqrt(d_model) variance 1.
    wide = Transformer(config(tgt_vocab_size=4000, d_model=48))
    lengths = wide.target_embedding.weight.norm(dim=1)
    assert lengths.mean().item() == pytest.approx(1, abs=0.02)


def test_dropout_acts_in_training_only() -> None:
    torch.manual_seed(0)
    ours = model(dropout=0.5)
    assert not torch.equal(ours(SOURCE, TARGET), ours(SOURCE, TARGET))
    ours.eval()
    torch.testing.assert_close(ours(SOURCE, TARGET), ours(SOURCE, TARGET))
    rates = {m.p for m in ours.modules() if isinstance(m, nn.Dropout)}
    assert rates == {0.5}
    # After the sum of embedding and position, and after each of 2 x 2 + 3 x 3 sub-layers.
    assert sum(isinstance(m, nn.Dropout) for m in ours.modules()) == 1 + 4 + 9
    inner = model(attention_dropout=0.3)
    assert {
        m.dropout for m in inner.modules() if type(m).__name__ == "MultiHeadAttention"
    } == {0.3}


def test_relative_bias_is_each_layers_own_and_rope_is_shared() -> None:
    relative, rope = model(positions="relative"), model(positions="rope")
    tables = [name for name, _ in relative.named_parameters() if "table" in name]
    assert len(tables) == 2 + 3
    shared = {id(layer.self_attention.positions) for layer in rope.decoder.layers}
    assert len(shared) == 1
    assert rope.decoder.layers[0].cross_attention.positions is None


def test_repr_is_clear() -> None:
    text = repr(model(norm_first=True))
    assert "d_model=12, num_heads=3" in text
    assert "norm_first=True" in text
    assert "(0-2): 3 x DecoderLayer(" in text


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda m: m(SOURCE + 9, TARGET),
            ValueError,
            "source_ids: got token number 17, wanted numbers from 0 to 8",
        ),
        (
            lambda m: m(SOURCE, TARGET - 2),
            ValueError,
            "target_ids: got token number -1, wanted numbers from 0 to 10",
        ),
        (lambda m: m(SOURCE.float(), TARGET), TypeError, "ids: got torch.float32"),
        (lambda m: m(SOURCE[0], TARGET), ValueError, "ids: got shape (5,)"),
        (lambda m: m(SOURCE, TARGET[0]), ValueError, "target_ids: got shape (3,)"),
        (
            lambda m: m(SOURCE, TARGET.half()),
            TypeError,
            "target_ids: got torch.float16",
        ),
        (
            lambda m: m(SOURCE, torch.ones(2, 25, dtype=torch.int64)),
            ValueError,
            "target_ids: got 25 tokens, wanted at most max_len=24",
        ),
        (
            lambda m: m(SOURCE, TARGET, torch.ones(2, 5, dtype=torch.bool)),
            ValueError,
            "mask: got shape (2, 5)",
        ),
        (
            lambda m: m(SOURCE, TARGET, torch.ones(2, 1, 1, 5)),
            TypeError,
            "mask: got torch.float32",
        ),
        (lambda m: m.loss(SOURCE, TARGET[:, :1]), ValueError, "n_t at least 2"),
        (
            lambda m: m.decode(TARGET, torch.zeros(2, 5, 7)),
            ValueError,
            "memory: got shape (2, 5, 7), wanted (batch, n, d_model=12)",
        ),
        (lambda m: m.start(SOURCE, 25), ValueError, "max_len: got 25, wanted at most"),
        (lambda m: m.start(SOURCE, 0), ValueError, "max_len: got 0"),
        (
            lambda m: m.step(torch.tensor([1]), m.start(SOURCE, 3)),
            ValueError,
            "ids: got shape (1,), wanted (2,)",
        ),
        (lambda m: m.flops(-1, 3), ValueError, "got -1, wanted 0 or more"),
    ],
)
def test_bad_input_is_named(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call(model())
    assert words in str(caught.value)


def test_no_step_fits_beyond_the_room_that_was_asked_for() -> None:
    ours = model()
    state = ours.start(SOURCE, max_len=2)
    for _ in range(2):
        ours.step(TARGET[:, 0], state)
    with pytest.raises(ValueError, match="the cache has room for max_len=2"):
        ours.step(TARGET[:, 0], state)
