"""Beam search: against a search through all sentences, and its special cases."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from transformer_lib.decoding import (
    Rerun,
    beam_search,
    greedy,
    length_norm,
    pack,
)
from transformer_lib.nn import Transformer, TransformerConfig

SOURCE = torch.tensor([[3, 4, 0, 0], [4, 3, 3, 4]])
IDS: dict[str, Any] = {"bos_id": 1, "eos_id": 2, "pad_id": 0}
VOCAB = 5


def model(seed: int = 0, vocab: int = VOCAB, spread: float = 2.0) -> Transformer:
    config = TransformerConfig(
        vocab_size=vocab,
        d_model=16,
        num_heads=2,
        d_ff=24,
        num_encoder_layers=1,
        num_decoder_layers=1,
        max_len=32,
        tie_embeddings=False,
    )
    ours = Transformer(config, torch.Generator().manual_seed(seed))
    with torch.no_grad():  # spread the logits, so that sentences differ and end
        ours.head.mul_(spread)
    return ours


class Table:
    """A model whose next-token chances depend on the last token only."""

    def __init__(self, chances: list[list[float]]) -> None:
        self.log_p = torch.tensor(chances).log()
        self.steps = 0

    def start(self, source_ids: Tensor, max_len: int) -> Any:
        self.steps = 0
        return self

    def select(self, rows: Tensor) -> None:
        """Nothing is remembered."""

    def step(self, ids: Tensor, state: Any) -> Tensor:
        self.steps += 1
        return self.log_p[ids]


def log_probabilities(
    ours: Transformer, source: Tensor, sentences: list[list[int]]
) -> list[float]:
    """From one run of the whole model on all sentences, padded."""
    longest = max(len(sentence) for sentence in sentences)
    ids = torch.zeros(len(sentences), longest + 1, dtype=torch.int64)
    ids[:, 0] = 1
    for row, sentence in zip(ids, sentences, strict=True):
        row[1 : len(sentence) + 1] = torch.tensor(sentence)
    with torch.no_grad():
        log_p = ours(source.expand(len(sentences), -1), ids[:, :-1]).log_softmax(-1)
    each = log_p.gather(-1, ids[:, 1:, None])[..., 0]
    return [float(row[: len(s)].sum()) for row, s in zip(each, sentences, strict=True)]


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 1000), length_penalty=st.sampled_from([0.0, 0.6, 2.0]))
def test_with_places_for_all_it_finds_the_best_of_all_sentences(
    seed: int, length_penalty: float
) -> None:
    ours, longest = model(seed).eval(), 3
    every = [
        [*words, 2]
        for n in range(longest)
        for words in itertools.product((0, 1, 3, 4), repeat=n)
    ]
    got = beam_search(
        *(ours, SOURCE),
        **IDS,
        max_len=longest,
        beam_size=80,
        n_best=3,
        length_penalty=length_penalty,
    )
    for i in range(2):
        scored = sorted(
            (
                (log_p / length_norm(len(sentence), length_penalty), sentence)
                for log_p, sentence in zip(
                    log_probabilities(ours, SOURCE[i], every), every, strict=True
                )
            ),
            reverse=True,
        )[:3]
        for (score, sentence), ids, found in zip(
            scored, got.ids[i].tolist(), got.scores[i].tolist(), strict=True
        ):
            assert found == pytest.approx(score, abs=1e-4)
            assert ids[: len(sentence)] == sentence
            assert not any(ids[len(sentence) :])


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("seed", range(6))
def test_one_place_is_greedy(length_penalty: float, seed: int) -> None:
    ours = model(seed, vocab=9)
    source = torch.randint(3, 9, (4, 5), generator=torch.Generator().manual_seed(seed))
    wanted = greedy(ours, source, **IDS, max_len=10)
    got = beam_search(
        *(ours, source),
        **IDS,
        max_len=10,
        beam_size=1,
        length_penalty=length_penalty,
    )
    torch.testing.assert_close(got.ids[:, 0], wanted)


@pytest.mark.parametrize("seed", range(4))
def test_with_cache_without_cache_and_packed_the_sentences_are_the_same(
    seed: int,
) -> None:
    ours = model(seed, vocab=9)
    source = torch.randint(3, 9, (3, 5), generator=torch.Generator().manual_seed(seed))
    request = {**IDS, "max_len": 8, "beam_size": 4, "n_best": 3}
    slow = beam_search(Rerun(ours), source, **request)
    for fast in (ours, pack(ours)):
        got = beam_search(fast, source, **request)
        torch.testing.assert_close(got.ids, slow.ids)
        torch.testing.assert_close(got.scores, slow.scores, atol=1e-5, rtol=0)
    for i in range(3):  # sentences of a batch do not meet
        alone = beam_search(ours, source[i : i + 1], **request)
        torch.testing.assert_close(alone.scores[0], slow.scores[i], atol=1e-5, rtol=0)
        n = alone.ids.shape[-1]
        assert alone.ids[0].tolist() == slow.ids[i, :, :n].tolist()
        assert not slow.ids[i, :, n:].any()


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000), length_penalty=st.sampled_from([0.0, 0.6]))
def test_scores_are_those_of_the_sentences_and_fall(
    seed: int, length_penalty: float
) -> None:
    ours = model(seed).eval()
    got = beam_search(
        *(ours, SOURCE),
        **IDS,
        max_len=12,
        beam_size=3,
        n_best=3,
        length_penalty=length_penalty,
    )
    for i in range(2):
        ended = []
        for ids, score in zip(got.ids[i].tolist(), got.scores[i].tolist(), strict=True):
            sentence = ids[: ids.index(2) + 1] if 2 in ids else ids
            (wanted,) = log_probabilities(ours, SOURCE[i], [sentence])
            norm = length_norm(len(sentence), length_penalty)
            assert score == pytest.approx(wanted / norm, abs=1e-4)
            if 2 in ids:
                ended.append(score)
        assert ended == sorted(ended, reverse=True)


#        pad  bos  eos   a    b
GREEDY_LOSES = [
    [0.2, 0.2, 0.2, 0.2, 0.2],
    [0.0, 0.0, 0.0, 0.6, 0.4],  # after bos: a looks better
    [0.2, 0.2, 0.2, 0.2, 0.2],
    [0.0, 0.0, 0.4, 0.3, 0.3],  # but nothing likely follows it
    [0.0, 0.0, 1.0, 0.0, 0.0],  # while b surely ends
]


def test_two_places_find_what_greedy_misses() -> None:
    source = torch.tensor([[3]])
    assert greedy(Table(GREEDY_LOSES), source, **IDS, max_len=5).tolist() == [[3, 2]]
    got = beam_search(
        Table(GREEDY_LOSES), source, **IDS, max_len=5, beam_size=2, length_penalty=0.0
    )
    assert got.ids[0, 0].tolist() == [4, 2]
    assert got.scores.item() == pytest.approx(math.log(0.4))


def test_it_stops_when_nothing_can_overtake_and_not_before() -> None:
    source = torch.tensor([[3]])
    #         pad  bos   eos    a    b
    early = [[0.2] * 5, [0, 0, 0.9, 0.1, 0], [0.2] * 5, [0, 0, 0.5, 0.5, 0], [0.2] * 5]
    table = Table(early)
    got = beam_search(table, source, **IDS, max_len=20, beam_size=2, length_penalty=0.0)
    assert got.ids.tolist() == [[[2]]]
    assert table.steps == 1  # ln .9 is out of reach for what begins with ln .1
    # The first to end is not the best: the search must go on past it.
    late = [
        [0.2] * 5,
        [0, 0, 0.4, 0.6, 0],
        [0.2] * 5,
        [0, 0, 0.1, 0, 0.9],
        [0, 0, 1.0, 0, 0],
    ]
    table = Table(late)
    got = beam_search(table, source, **IDS, max_len=20, beam_size=2, length_penalty=0.0)
    assert got.ids[0, 0].tolist() == [3, 4, 2]
    assert got.scores.item() == pytest.approx(math.log(0.6 * 0.9))
    assert table.steps == 3


def test_a_finished_sentence_is_not_extended() -> None:
    source = torch.tensor([[3]])
    #          pad bos eos  a    b
    chances = [[0.2] * 5, [0, 0, 0.7, 0.3, 0], [0, 0, 1.0, 0, 0], [0, 0, 1.0, 0, 0]]
    table = Table([*chances, [0.2] * 5])
    got = beam_search(
        table, source, **IDS, max_len=5, beam_size=2, n_best=2, length_penalty=0.0
    )
    assert got.ids[0].tolist() == [[2, 0], [3, 2]]  # and not the end after the end
    assert got.scores[0].exp().tolist() == pytest.approx([0.7, 0.3])


def test_a_finished_sentence_keeps_its_place() -> None:
    source = torch.tensor([[3]])
    #                      pad bos eos  a    b
    table = Table(
        [
            [0.2] * 5,
            [0, 0, 0.5, 0.3, 0.2],  # the end takes one of two places
            [0.2] * 5,
            [0, 0, 0, 0.6, 0.4],  # so only one of these two goes on
            [0, 0, 1.0, 0, 0],  # which is not the one that would end
        ]
    )
    got = beam_search(
        table, source, **IDS, max_len=3, beam_size=2, n_best=2, length_penalty=0.0
    )
    assert got.ids[0].tolist() == [[2, 0, 0], [3, 3, 3]]


def test_a_length_penalty_favours_longer_sentences() -> None:
    assert length_norm(1, 0.6) == 1.0
    assert length_norm(7, 2.0) == 4.0
    source = torch.tensor([[3]])
    chances = [
        [0.2] * 5,
        [0, 0, 0.3, 0.7, 0],
        [0.2] * 5,
        [0, 0, 0, 0, 1.0],
        [0, 0, 0.4, 0, 0.6],
    ]
    short, long_ = (
        beam_search(
            Table(chances), source, **IDS, max_len=9, beam_size=3, length_penalty=p
        ).ids[0, 0]
        for p in (0.0, 3.0)
    )
    assert len(short) < len(long_)


def test_sentences_cut_off_come_only_where_too_few_ended() -> None:
    source = torch.tensor([[3]])
    endless = [[0.2] * 5, [0, 0, 0.1, 0.9, 0], [0.2] * 5, [0, 0, 0, 1.0, 0], [0.2] * 5]
    got = beam_search(
        *(Table(endless), source),
        **IDS,
        max_len=4,
        beam_size=3,
        n_best=3,
        length_penalty=0.0,
    )
    assert got.ids[0].tolist() == [[2, 0, 0, 0], [3, 3, 3, 3], [0, 0, 0, 0]]
    assert got.scores[0, :2].exp().tolist() == pytest.approx([0.1, 0.9])
    assert got.scores[0, 2] == -math.inf
    best = beam_search(
        Table(endless), source, **IDS, max_len=4, beam_size=3, length_penalty=0.0
    )
    assert best.ids.tolist() == [[[2]]]


def test_an_empty_batch_gives_empty_rectangles() -> None:
    got = beam_search(model(), SOURCE[:0], **IDS, max_len=5, beam_size=2, n_best=2)
    assert got.ids.shape == (0, 2, 0)
    assert got.scores.shape == (0, 2)


def test_each_module_has_its_mode_back() -> None:
    ours = model().train()
    beam_search(ours, SOURCE, **IDS, max_len=5)
    assert all(m.training for m in ours.modules())


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"beam_size": 0}, ValueError, "beam_size: got 0, wanted 1 or more"),
        ({"beam_size": 2.0}, TypeError, "beam_size: got 2.0"),
        ({"n_best": 0}, ValueError, "n_best: got 0"),
        ({"n_best": 5}, ValueError, "n_best: got 5, wanted at most beam_size=4"),
        ({"length_penalty": -0.1}, ValueError, "length_penalty: got -0.1"),
        ({"length_penalty": float("nan")}, ValueError, "length_penalty: got nan"),
        ({"max_len": 0}, ValueError, "max_len: got 0"),
        ({"eos_id": 5}, ValueError, "eos_id: got 5, wanted a number below 5"),
        ({"source_ids": SOURCE[0]}, ValueError, "source_ids: got shape (4,)"),
    ],
)
def test_bad_input_is_named(
    change: dict[str, Any], error: type[Exception], words: str
) -> None:
    arguments = {"source_ids": SOURCE, **IDS, "max_len": 5, **change}
    source = arguments.pop("source_ids")
    with pytest.raises(error) as caught:
        beam_search(model(), source, **arguments)
    assert words in str(caught.value)
