"""Greedy decoding and sampling: what is written, and how chance is shaped."""

from __future__ import annotations

import copy
import importlib
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from transformer_lib.decoding import (
    Rerun,
    greedy,
    next_token_distribution,
    pack,
    sample,
)
from transformer_lib.nn import Transformer, TransformerConfig

packed_module = importlib.import_module("transformer_lib.decoding.packed")

POSITIONS = ("sinusoidal", "learned", "rope", "alibi", "relative", "none")
SOURCE = torch.tensor([[3, 5, 8, 0, 0], [4, 9, 3, 6, 5], [7, 7, 0, 0, 0]])
IDS: dict[str, Any] = {"bos_id": 1, "eos_id": 2, "pad_id": 0}


def model(seed: int = 0, **changes: Any) -> Transformer:
    small: dict[str, Any] = {
        "vocab_size": 12,
        "d_model": 16,
        "num_heads": 2,
        "d_ff": 24,
        "num_encoder_layers": 1,
        "num_decoder_layers": 2,
        "max_len": 32,
        "dropout": 0.1,
        "tie_embeddings": False,
    }
    config = TransformerConfig(**{**small, **changes})
    ours = Transformer(config, torch.Generator().manual_seed(seed))
    with torch.no_grad():  # spread the logits, so that sentences differ and end
        ours.head.mul_(4.0)
    return ours


class Script:
    """A model that says given sentences, whatever the source: row i says row i."""

    def __init__(self, *sentences: list[int], vocab: int = 12) -> None:
        self.sentences, self.vocab = sentences, vocab
        self.read: list[list[int]] = []

    def start(self, source_ids: Tensor, max_len: int) -> Any:
        return ScriptState(list(range(source_ids.shape[0])))

    def step(self, ids: Tensor, state: Any) -> Tensor:
        self.read.append(ids.tolist())
        logits = torch.zeros(len(state.rows), self.vocab)
        for i, row in enumerate(state.rows):
            sentence = self.sentences[row]
            logits[i, sentence[min(state.t, len(sentence) - 1)]] = 5.0
        state.t += 1
        return logits


class ScriptState:
    def __init__(self, rows: list[int]) -> None:
        self.rows, self.t = rows, 0

    def select(self, rows: Tensor) -> None:
        self.rows = [self.rows[i] for i in rows.tolist()]


# --- greedy ---------------------------------------------------------------------------


def test_a_row_is_left_alone_after_its_end() -> None:
    script = Script([5, 2, 7, 7], [6, 8, 9, 2], [2, 4])
    got = greedy(script, SOURCE, **IDS, max_len=10)
    assert got.tolist() == [[5, 2, 0, 0], [6, 8, 9, 2], [2, 0, 0, 0]]
    # It reads the start token first, then what it wrote, padding behind the end.
    assert script.read == [[1, 1, 1], [5, 6, 2], [2, 8, 0], [0, 9, 0]]


def test_it_stops_at_the_longest_length_asked_for() -> None:
    script = Script([5, 6, 7], [5, 6, 2], [5, 6, 7])
    got = greedy(script, SOURCE, **IDS, max_len=4)
    assert got.tolist() == [[5, 6, 7, 7], [5, 6, 2, 0], [5, 6, 7, 7]]
    assert len(script.read) == 4


def test_the_padding_can_be_any_token() -> None:
    got = greedy(
        Script([5, 2], [6, 7, 2]), SOURCE[:2], bos_id=1, eos_id=2, pad_id=9, max_len=5
    )
    assert got.tolist() == [[5, 2, 9], [6, 7, 2]]
    # Even the end token: the first one ends the sentence.
    same = greedy(
        Script([5, 2], [6, 7, 2]), SOURCE[:2], bos_id=1, eos_id=2, pad_id=2, max_len=5
    )
    assert same.tolist() == [[5, 2, 2], [6, 7, 2]]


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("norm_first", [False, True])
def test_with_cache_without_cache_and_packed_the_tokens_are_the_same(
    positions: str, norm_first: bool
) -> None:
    for seed in range(20):
        ours = model(seed, positions=positions, norm_first=norm_first)
        slow = greedy(Rerun(ours), SOURCE, **IDS, max_len=15)
        if slow.unique().numel() > 5:  # not the same token again and again
            break
    assert slow.unique().numel() > 5
    for fast in (ours, pack(ours)):
        torch.testing.assert_close(greedy(fast, SOURCE, **IDS, max_len=15), slow)
    one_by_one = [greedy(ours, row[None], **IDS, max_len=15)[0] for row in SOURCE]
    for alone, together in zip(one_by_one, slow, strict=True):
        assert alone.tolist() == together[: len(alone)].tolist()
        assert not together[len(alone) :].any()


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000))
def test_greedy_takes_the_best_token_of_the_whole_model_at_every_place(
    seed: int,
) -> None:
    ours = model(seed)
    got = greedy(ours, SOURCE, **IDS, max_len=8)
    ours.eval()
    target = torch.cat([torch.ones(3, 1, dtype=torch.int64), got[:, :-1]], dim=1)
    best = ours(SOURCE, target).argmax(-1)
    for row, wanted in zip(got.tolist(), best.tolist(), strict=True):
        end = row.index(2) + 1 if 2 in row else len(row)
        assert row[:end] == wanted[:end]


def test_each_module_has_its_mode_back_even_after_an_error() -> None:
    ours = model()
    ours.train()
    ours.encoder.layers[0].eval()
    modes = [m.training for m in ours.modules()]
    first = greedy(ours, SOURCE, **IDS, max_len=6)
    assert [m.training for m in ours.modules()] == modes
    torch.testing.assert_close(greedy(ours, SOURCE, **IDS, max_len=6), first)
    with pytest.raises(ValueError, match="max_len"):
        greedy(ours, SOURCE, **IDS, max_len=33)
    assert [m.training for m in ours.modules()] == modes
    ours.loss(SOURCE, first).backward()  # what was written can be trained on


@pytest.mark.parametrize("decode", [greedy, sample])
def test_an_empty_batch_writes_nothing(decode: Any) -> None:
    assert decode(model(), SOURCE[:0], **IDS, max_len=5).shape == (0, 0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_can_be_decoded(dtype: torch.dtype) -> None:
    ours = model().to(dtype)
    got = greedy(ours, SOURCE, **IDS, max_len=6)
    torch.testing.assert_close(greedy(pack(ours), SOURCE, **IDS, max_len=6), got)
    torch.testing.assert_close(greedy(Rerun(ours), SOURCE, **IDS, max_len=6), got)


# --- sampling -------------------------------------------------------------------------

LOGITS = torch.tensor([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]]).log()


def chances(**options: Any) -> list[list[float]]:
    return [
        [round(p, 4) for p in row]
        for row in next_token_distribution(LOGITS, **options).tolist()
    ]


def test_temperature_divides_the_scores() -> None:
    torch.testing.assert_close(next_token_distribution(LOGITS), LOGITS.exp())
    torch.testing.assert_close(
        next_token_distribution(LOGITS, temperature=0.5),
        LOGITS.exp() ** 2 / (LOGITS.exp() ** 2).sum(-1, keepdim=True),
    )
    assert chances(temperature=0.0) == [[1, 0, 0, 0], [0, 0, 0, 1]]


def test_top_k_keeps_k_tokens_and_of_equals_the_first() -> None:
    assert chances(top_k=2) == [[0.5714, 0.4286, 0, 0], [0, 0, 0.4286, 0.5714]]
    assert chances(top_k=1) == [[1, 0, 0, 0], [0, 0, 0, 1]]
    assert chances(top_k=99) == chances()
    equal = next_token_distribution(torch.zeros(1, 5), top_k=3)
    torch.testing.assert_close(equal, torch.tensor([[1, 1, 1, 0, 0]]) / 3)


def test_top_p_keeps_the_token_that_crosses_it_and_no_more() -> None:
    assert chances(top_p=0.5)[0] == [0.5714, 0.4286, 0, 0]
    assert chances(top_p=0.39)[0] == [1, 0, 0, 0]
    assert chances(top_p=0.41)[0] == [0.5714, 0.4286, 0, 0]
    assert chances(top_p=1e-9)[0] == [1, 0, 0, 0]
    assert chances(top_p=1.0) == chances()
    # After top_k, of what top_k left: 0.5714 alone is more than 0.5.
    assert chances(top_k=2, top_p=0.5)[0] == [1, 0, 0, 0]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    temperature=st.floats(0.0, 5.0),
    top_k=st.none() | st.integers(1, 9),
    top_p=st.none() | st.floats(0.01, 1.0),
)
def test_chances_sum_to_one_and_keep_the_order_of_the_scores(
    seed: int, temperature: float, top_k: int | None, top_p: float | None
) -> None:
    logits = torch.randn(3, 8, generator=torch.Generator().manual_seed(seed))
    got = next_token_distribution(logits, temperature, top_k, top_p)
    torch.testing.assert_close(got.sum(-1), torch.ones(3))
    assert (got.gather(1, logits.argmax(-1, keepdim=True)) > 0).all()
    in_order = got.gather(1, logits.argsort(-1, descending=True))
    assert (in_order.diff(dim=-1) <= 1e-7).all()
    if top_k is not None:
        assert ((got > 0).sum(-1) <= top_k).all()


def test_samples_follow_the_distribution() -> None:
    rows = 20_000
    script = Script(*[[5, 2]] * rows, vocab=8)
    source = torch.ones(rows, 1, dtype=torch.int64)
    got = sample(
        *(script, source),
        **IDS,
        max_len=1,
        temperature=2.5,
        generator=torch.Generator().manual_seed(0),
    )
    share = torch.bincount(got[:, 0], minlength=8) / rows
    wanted = torch.tensor([0.0] * 5 + [5.0, 0.0, 0.0]).div(2.5).softmax(0)
    torch.testing.assert_close(share, wanted, atol=0.015, rtol=0)


def test_temperature_zero_and_one_choice_are_greedy() -> None:
    ours = model()
    wanted = greedy(ours, SOURCE, **IDS, max_len=9)
    for options in ({"temperature": 0.0}, {"top_k": 1}, {"top_p": 1e-9}):
        got = sample(ours, SOURCE, **IDS, max_len=9, **options)
        torch.testing.assert_close(got, wanted)


def test_chance_comes_from_the_generator_alone() -> None:
    ours = model()

    def draw(seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return sample(ours, SOURCE, **IDS, max_len=12, generator=generator)

    torch.manual_seed(5)
    state = torch.get_rng_state()
    one = draw(1)
    assert torch.equal(torch.get_rng_state(), state)
    torch.testing.assert_close(draw(1), one)
    assert any(draw(s).tolist() != one.tolist() for s in range(2, 5))


# --- packed weights -------------------------------------------------------------------


@pytest.mark.parametrize("maker", ["GenuineIntel", "AuthenticAMD"])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 8, 33, 600])
def test_packed_layers_multiply_as_the_layers_do_for_any_number_of_rows(
    rows: int, maker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_module, "_processor_is", lambda name: name == maker)
    ours, x = model(), torch.randn(rows, 1, 16)
    packed = pack(ours)
    for mine, its in zip(
        _linears(packed.decoder, "PackedLinear"),
        _linears(ours.decoder, "Linear"),
        strict=True,
    ):
        part = x if its.in_features == 16 else torch.randn(rows, 1, its.in_features)
        with torch.no_grad():
            torch.testing.assert_close(mine(part), its(part), atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(mine(part), its(part), atol=1e-5, rtol=1e-5)


def test_one_layout_serves_any_number_of_rows_above_one_off_intel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not packed_module._onednn_is_there():
        pytest.skip("this PyTorch has no oneDNN for this processor")
    monkeypatch.setattr(packed_module, "_processor_is", lambda name: False)
    layer = packed_module.PackedLinear(torch.randn(7, 5), None, None)
    with torch.no_grad():
        for rows in (2, 3, 8, 64):
            layer(torch.randn(rows, 5))
    assert len(layer._layouts) == 1


def test_a_single_row_reads_the_longer_runs() -> None:
    x = torch.randn(1, 5)
    wide = packed_module.PackedLinear(torch.randn(7, 5), None, None)
    narrow = packed_module.PackedLinear(torch.randn(3, 5), None, None)
    with torch.no_grad():
        assert wide(x).shape == (1, 7)
        assert narrow(x).shape == (1, 3)
    assert [tuple(t.shape) for t in wide._layouts.values()] == [(5, 7)]
    assert not narrow._layouts


def _linears(module: nn.Module, kind: str) -> list[Any]:
    return [m for m in module.modules() if type(m).__name__ == kind]


def test_a_packed_model_is_a_snapshot_and_leaves_the_model_as_it_was() -> None:
    ours = model().eval()
    before = copy.deepcopy(ours)
    packed = pack(ours)
    wanted = greedy(ours, SOURCE, **IDS, max_len=8)
    with torch.no_grad():
        for parameter in ours.decoder.parameters():
            assert parameter.requires_grad
    torch.testing.assert_close(
        ours(SOURCE, wanted), before(SOURCE, wanted), atol=0, rtol=0
    )
    assert len(_linears(ours, "PackedLinear")) == 0
    assert len(_linears(packed.decoder, "PackedLinear")) == 2 * (3 + 3 + 2)
    torch.testing.assert_close(greedy(packed, SOURCE, **IDS, max_len=8), wanted)


def test_bfloat16_weights_between_full_precision_layers() -> None:
    ours = model().eval()
    packed = pack(ours, torch.bfloat16).eval()
    state, half = ours.start(SOURCE, 4), packed.start(SOURCE, 4)
    with torch.no_grad():
        full = ours.step(SOURCE[:, 0], state)
        mixed = packed.step(SOURCE[:, 0], half)
    assert mixed.dtype == torch.float32
    assert half.caches[0]._keys.dtype == torch.float32
    assert (mixed - full).abs().max() < 0.05 * full.abs().max()
    assert not torch.equal(mixed, full)


def test_double_precision_stays_double() -> None:
    ours = model().double().eval()
    with torch.no_grad():
        full = ours.step(SOURCE[:, 0], ours.start(SOURCE, 4))
        packed = pack(ours)
        got = packed.step(SOURCE[:, 0], packed.start(SOURCE, 4))
    torch.testing.assert_close(got, full, atol=1e-12, rtol=0)


# --- bad input ------------------------------------------------------------------------


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"source_ids": SOURCE[0]}, ValueError, "source_ids: got shape (5,)"),
        ({"source_ids": SOURCE.float()}, TypeError, "source_ids: got torch.float32"),
        ({"max_len": 0}, ValueError, "max_len: got 0, wanted 1 or more"),
        ({"max_len": 3.0}, TypeError, "max_len: got 3.0"),
        ({"max_len": 33}, ValueError, "max_len: got 33, wanted at most the model's 32"),
        ({"bos_id": -1}, ValueError, "bos_id: got -1"),
        ({"bos_id": 12}, ValueError, "got token number 12"),
        ({"eos_id": 12}, ValueError, "eos_id: got 12, wanted a number below 12"),
        ({"pad_id": True}, TypeError, "pad_id: got True"),
        ({"model": nn.Linear(2, 2)}, TypeError, "model: got Linear, wanted one with"),
        ({"temperature": -1.0}, ValueError, "temperature: got -1.0"),
        ({"temperature": float("nan")}, ValueError, "temperature: got nan"),
        ({"temperature": float("inf")}, ValueError, "temperature: got inf"),
        ({"top_k": 0}, ValueError, "top_k: got 0, wanted 1 or more"),
        ({"top_k": 1.5}, TypeError, "top_k: got 1.5"),
        ({"top_p": 0.0}, ValueError, "top_p: got 0.0, wanted a number in (0, 1]"),
        ({"top_p": 1.1}, ValueError, "top_p: got 1.1"),
        ({"top_p": float("nan")}, ValueError, "top_p: got nan"),
    ],
)
def test_bad_input_is_named(
    change: dict[str, Any], error: type[Exception], words: str
) -> None:
    arguments = {"model": model(), "source_ids": SOURCE, **IDS, "max_len": 5, **change}
    calls = [sample]
    if not set(change) & {"temperature", "top_k", "top_p"}:
        calls.append(greedy)
    for call in calls:
        with pytest.raises(error) as caught:
            call(arguments["model"], arguments["source_ids"], **_rest(arguments))
        assert words in str(caught.value)


def _rest(arguments: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in arguments.items() if k not in ("model", "source_ids")}


@pytest.mark.no_shape_hook
def test_only_transformers_are_packed() -> None:
    with pytest.raises(TypeError, match="model: got Linear, wanted a Transformer"):
        pack(nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"dtype: got torch\.int8"):
        pack(model(), torch.int8)
