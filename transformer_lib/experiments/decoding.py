"""Measurements of chapter 10: what becomes of a model's scores.

A small Transformer turns English number words into Korean numerals, syllable by
syllable. Half of what it reads was heard badly: one word is missing, so that several
answers fit. All searching and sampling here is done by
:mod:`transformer_lib.decoding`.

``python -m transformer_lib.experiments.decoding`` makes the records
``decoding_search``, ``decoding_hurried``, ``decoding_sampling`` and ``decoding_blame``,
the model that the chapter loads (``records/decoding.safetensors``) and the trees that the
widget *Beam* walks (``widgets/data/decoding.json``) again. Names after the command
(``model``, ``records``, ``blame``, ``widget``) make only those. All take about seven
minutes of one core; ``--jobs 2`` spreads the seeds over two.
"""

import argparse
import json
import math
import multiprocessing
import random
import time
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file, save_file
from torch import Tensor

from transformer_lib.decoding import Rerun, StepModel, beam_search, greedy, sample
from transformer_lib.experiments.records import write
from transformer_lib.nn import Transformer, TransformerConfig
from transformer_lib.tasks.number_words import (
    ENGLISH,
    KOREAN,
    SOUNDS,
    english_words,
    fitting,
    korean_numeral,
    lose_a_word,
    split_numbers,
)

__all__ = [
    "HURRIED",
    "REQUEST",
    "SAMPLERS",
    "SETTINGS",
    "Heard",
    "Outcome",
    "ambiguous",
    "blame",
    "log_probability",
    "measure",
    "new_model",
    "numbers_for_seed",
    "read",
    "same_with_cache",
    "sampling_values",
    "search",
    "search_values",
    "seconds_to_write",
    "sound_out",
    "train_model",
    "trained_model",
    "tree",
    "write_by_beam",
]

WIDTH, HEADS, INNER = 64, 4, 256
STEPS, BATCH, LEARNING_RATE = 700, 64, 5e-3
HURRIED: dict[str, Any] = {"steps": 250, "label_smoothing": 0.1}
"""Arguments of :func:`train_model` for a model that stopped learning too early."""

MAX_LEN = 20
"""Room for the longest numeral, 15 syllables and the end, and for some babbling."""

REQUEST: dict[str, Any] = {
    "bos_id": KOREAN.bos_id,
    "eos_id": KOREAN.eos_id,
    "pad_id": KOREAN.pad_id,
    "max_len": MAX_LEN,
}
"""What every function of :mod:`transformer_lib.decoding` has to be told."""

SAMPLERS: dict[str, dict[str, Any]] = {
    "temperature 0.3": {"temperature": 0.3},
    "temperature 0.7": {"temperature": 0.7},
    "temperature 1": {"temperature": 1.0},
    "temperature 1.5": {"temperature": 1.5},
    "top-k 3": {"top_k": 3},
    "top-k 9": {"top_k": 9},
    "top-p 0.5": {"top_p": 0.5},
    "top-p 0.9": {"top_p": 0.9},
}
"""Name -> arguments of :func:`transformer_lib.decoding.sample`."""


# --- the task -------------------------------------------------------------------------


class Heard(NamedTuple):
    """What was heard, and all that may be answered.

    Attributes
    ----------
    texts
        English words, perhaps with a gap.
    source
        Their ids, shape (texts, longest), padded with 0.
    answers
        For each text the numerals that fit it; one where nothing is missing.
    """

    texts: list[tuple[str, ...]]
    source: Int[Tensor, "texts n_s"]
    answers: list[set[tuple[str, ...]]]

    @classmethod
    def of(cls, texts: Sequence[Sequence[str]]) -> "Heard":
        """Look up what fits each text."""
        kept = [tuple(text) for text in texts]
        answers = [{korean_numeral(n) for n in fitting(text)} for text in kept]
        return cls(kept, torch.from_numpy(ENGLISH.encode(kept)), answers)

    def share_right(self, written: Sequence[tuple[str, ...]]) -> float:
        """Share of texts with an answer that fits."""
        right = [a in fit for a, fit in zip(written, self.answers, strict=True)]
        return sum(right) / len(right)


@cache
def numbers_for_seed(
    seed: int, train: int = 20_000, test: int = 200
) -> tuple[tuple[Tensor, Tensor], Heard, Heard]:
    """Make training pairs, whole test texts, and test texts with a gap.

    Returns
    -------
    train
        Ids of English texts, every second one with a gap on average, and of Korean
        numerals with start and end.
    whole, gaps
        Texts of five digits or more; no number of theirs is trained on.
    """
    split = split_numbers(seed, train, 2 * test)
    generator = random.Random(seed)
    texts = [english_words(n) for n in split.train]
    texts = [
        lose_a_word(t, generator) if generator.random() < 0.5 else t for t in texts
    ]
    numerals = [korean_numeral(n) for n in split.train]
    pairs = (
        torch.from_numpy(ENGLISH.encode(texts)),
        torch.from_numpy(KOREAN.encode(numerals, ends=True)),
    )
    asked = [english_words(n) for n in split.test]
    whole = Heard.of(asked[:test])
    gaps = Heard.of([lose_a_word(text, generator) for text in asked[test:]])
    return pairs, whole, gaps


# --- the model ------------------------------------------------------------------------


def new_model(seed: int) -> Transformer:
    """One encoder layer and one decoder layer of width 64, untrained."""
    config = TransformerConfig(
        src_vocab_size=len(ENGLISH),
        tgt_vocab_size=len(KOREAN),
        d_model=WIDTH,
        num_heads=HEADS,
        d_ff=INNER,
        num_encoder_layers=1,
        num_decoder_layers=1,
        max_len=32,
        dropout=0.0,
        norm_first=True,
        pad_id=KOREAN.pad_id,
    )
    return Transformer(config, torch.Generator().manual_seed(seed))


def train_model(
    seed: int, steps: int = STEPS, label_smoothing: float = 0.0
) -> Transformer:
    """Train a model with teacher forcing.

    Parameters
    ----------
    seed
        Of the numbers, the initial weights and the batches.
    steps
        Steps of AdamW; the learning rate rises for a tenth of them and falls along a
        cosine.
    label_smoothing
        Share of each target that is spread over all syllables.

    Returns
    -------
    model
        In evaluation mode.
    """
    (source, target), _, _ = numbers_for_seed(seed)
    model = new_model(seed)
    optimizer = torch.optim.AdamW(
        model.parameters(), LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.0
    )
    warm_up = max(1, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min(
            (step + 1) / warm_up,
            0.5 + 0.5 * math.cos(math.pi * max(0, step - warm_up) / (steps - warm_up)),
        ),
    )
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        rows = torch.randint(len(source), (BATCH,), generator=generator)
        loss = model.loss(
            _trimmed(source[rows]), _trimmed(target[rows]), label_smoothing
        )
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model.eval()


def _trimmed(ids: Tensor) -> Tensor:
    """Drop the columns that hold nothing but padding."""
    return ids[:, : int((ids != 0).sum(dim=1).max())]


def trained_model() -> Transformer:
    """Load the model of the chapter: :func:`train_model` with seed 0."""
    model = new_model(0)
    model.load_state_dict(load_file(_checkpoint()))
    return model.eval()


def _checkpoint() -> Path:
    folder = Path(str(resources.files("transformer_lib.experiments.records")))
    return folder / "decoding.safetensors"


# --- writing, and what the model thinks of it -----------------------------------------


def read(ids: Int[Tensor, "rows n"]) -> list[tuple[str, ...]]:
    """Turn rows of ids into syllables, up to the end token."""
    return [KOREAN.decode(row) for row in ids.tolist()]


@torch.no_grad()
def log_probability(
    model: Transformer, source: Int[Tensor, "b n_s"], written: Int[Tensor, "b n_t"]
) -> Float[Tensor, " b"]:
    """Log-probability of whole sentences, in nats, padding left out.

    Parameters
    ----------
    model
        Scores them with teacher forcing.
    source
        What was heard.
    written
        Sentences without the start token, with the end token.
    """
    start = written.new_full((len(written), 1), KOREAN.bos_id)
    read_so_far = torch.cat([start, written[:, :-1]], dim=1)
    log_p = model(source, read_so_far).log_softmax(dim=-1)
    chosen = log_p.gather(-1, written[..., None])[..., 0]
    return chosen.masked_fill(written == KOREAN.pad_id, 0.0).sum(dim=1)


class Outcome(NamedTuple):
    """What one way of writing made of a list of texts.

    Attributes
    ----------
    right
        Share of texts with an answer that fits.
    likelier, less_likely
        Share of texts whose answer the model finds likelier, or less likely, than
        greedy's.
    too_short
        Share of texts with an answer shorter than the shortest that fits.
    """

    right: float
    likelier: float
    less_likely: float
    too_short: float


def write_by_beam(
    model: Transformer,
    source: Int[Tensor, "b n_s"],
    beam_size: int,
    length_penalty: float,
) -> Int[Tensor, "b n"]:
    """Best sentence of a beam for each text; 100 texts at a time, to spare memory."""
    parts = [
        beam_search(
            model, part, beam_size=beam_size, length_penalty=length_penalty, **REQUEST
        ).ids[:, 0]
        for part in (source[i : i + 100] for i in range(0, len(source), 100))
    ]
    return torch.cat(
        [
            torch.nn.functional.pad(ids, (0, MAX_LEN - ids.shape[1]), value=0)
            for ids in parts
        ]
    )


def search(
    model: Transformer,
    heard: Heard,
    settings: Sequence[tuple[int, float]],
) -> dict[str, Outcome]:
    """Write answers greedily and with beams, and compare.

    Parameters
    ----------
    model
        Writes.
    heard
        The texts.
    settings
        Beam sizes, each with a length penalty.

    Returns
    -------
    outcomes
        ``"greedy"``, ``"beam 4, penalty 0"`` and so on.
    """
    first = greedy(model, heard.source, **REQUEST)
    of_greedy = log_probability(model, heard.source, first)

    def outcome(ids: Tensor) -> Outcome:
        gain = log_probability(model, heard.source, ids) - of_greedy
        written = read(ids)
        short = [
            len(a) < min(map(len, fit))
            for a, fit in zip(written, heard.answers, strict=True)
        ]
        # Sums of float32 numbers: what differs by less is the same sentence.
        return Outcome(
            heard.share_right(written),
            float((gain > 1e-3).double().mean()),
            float((gain < -1e-3).double().mean()),
            sum(short) / len(short),
        )

    found = {"greedy": outcome(first)}
    for beam, penalty in settings:
        ids = write_by_beam(model, heard.source, beam, penalty)
        found[f"beam {beam}, penalty {penalty:g}"] = outcome(ids)
    return found


def blame(model: Transformer, heard: Heard) -> tuple[int, int]:
    """Count greedy's wrong answers, and those that a better search would have mended.

    Parameters
    ----------
    model
        Writes.
    heard
        Texts with one right answer each.

    Returns
    -------
    wrong
        Answers that do not fit.
    missed
        Those of them that the model finds less likely than the right one.
    """
    said = greedy(model, heard.source, **REQUEST)
    right = [next(iter(fit)) for fit in heard.answers]
    ids = torch.from_numpy(KOREAN.encode(right, ends=True))[:, 1:]
    wrong = torch.tensor([a != b for a, b in zip(read(said), right, strict=True)])
    of_right = log_probability(model, heard.source, ids)
    missed = wrong & (of_right > log_probability(model, heard.source, said))
    return int(wrong.sum()), int(missed.sum())


def sound_out(
    model: StepModel, heard: Heard, draws: int = 10, seed: int = 0, **sampler: Any
) -> tuple[float, float]:
    """Draw answers: how many fit, and how many different ones that fit are found.

    Parameters
    ----------
    model
        Writes.
    heard
        The texts.
    draws
        Answers per text.
    seed
        Of the first draw; the others take the next ones.
    sampler
        Arguments of :func:`transformer_lib.decoding.sample`.

    Returns
    -------
    right
        Share of all draws that fit.
    different
        Different answers that fit, per text.
    """
    found: list[set[tuple[str, ...]]] = [set() for _ in heard.texts]
    right = 0
    for draw in range(draws):
        generator = torch.Generator().manual_seed(seed + draw)
        ids = sample(model, heard.source, generator=generator, **sampler, **REQUEST)
        for answer, fit, kept in zip(read(ids), heard.answers, found, strict=True):
            if answer in fit:
                right += 1
                kept.add(answer)
    count = len(heard.texts)
    return right / (draws * count), sum(map(len, found)) / count


# --- the cache ------------------------------------------------------------------------


def same_with_cache(model: Transformer, prompts: int, seed: int) -> tuple[int, int]:
    """Decode random prompts with and without cache; count those with equal tokens.

    All prompts stand in one batch, so they are padded, and rows end at different steps.
    Each is decoded alone as well.

    Returns
    -------
    batched, alone
        Prompts whose tokens with the cache, in the batch and alone, are those that the
        whole model gives when it is run anew at each step.
    """
    generator = random.Random(seed)
    texts = [
        english_words(generator.randrange(10 ** generator.randrange(1, 9)) + 1)
        if generator.random() < 0.5
        else lose_a_word(english_words(generator.randrange(1, 10**8)), generator)
        for _ in range(prompts)
    ]
    source = torch.from_numpy(ENGLISH.encode(texts))
    wanted = read(greedy(Rerun(model), source, **REQUEST))
    cached = read(greedy(model, source, **REQUEST))
    alone = [
        read(greedy(model, torch.from_numpy(ENGLISH.encode([text])), **REQUEST))[0]
        for text in texts
    ]
    return (
        sum(a == b for a, b in zip(cached, wanted, strict=True)),
        sum(a == b for a, b in zip(alone, wanted, strict=True)),
    )


def seconds_to_write(
    lengths: Sequence[int], cached: bool, seed: int = 0, repeats: int = 3
) -> list[float]:
    """Time an untrained model that writes exactly so many tokens, best of some runs.

    Time does not depend on what the weights are, only on how many there are.

    Parameters
    ----------
    lengths
        Numbers of tokens to write.
    cached
        With the step interface's cache; else the whole prefix is run anew.
    seed, repeats
        Of the weights; runs, of which the fastest counts.
    """
    config = TransformerConfig(
        src_vocab_size=len(ENGLISH), tgt_vocab_size=len(KOREAN), d_model=WIDTH,
        num_heads=HEADS, d_ff=INNER, num_encoder_layers=1, num_decoder_layers=1,
        max_len=max(lengths) + 1, norm_first=True,
    )  # fmt: skip
    model = Transformer(config, torch.Generator().manual_seed(seed)).eval()
    writer: StepModel = model if cached else Rerun(model)
    source = torch.from_numpy(ENGLISH.encode([english_words(12_345_678)] * 8))
    times = []
    for length in lengths:
        runs = []
        for _ in range(repeats):
            begun = time.perf_counter()
            _write_exactly(writer, source, length)
            runs.append(time.perf_counter() - begun)
        times.append(min(runs))
    return times


@torch.inference_mode()
def _write_exactly(writer: StepModel, source: Tensor, length: int) -> None:
    """Greedy decoding that stops at no end token."""
    state = writer.start(source, length)
    ids = source.new_full((len(source),), KOREAN.bos_id)
    for _ in range(length):
        ids = writer.step(ids, state).argmax(dim=-1)


# --- records --------------------------------------------------------------------------

_COMMAND = "python -m transformer_lib.experiments.decoding"
_SEEDS = range(10)
SETTINGS = {
    "whole": ((4, 0.0), (16, 0.0)),
    "gap": ((4, 0.0), (16, 0.0), (16, 0.6)),
    "hurried": ((4, 0.0), (16, 0.0), (64, 0.0), (16, 0.6), (64, 0.6), (64, 1.0)),
}
"""Beam sizes and length penalties of the records."""

Values = dict[str, float]


def search_values(model: Transformer, heard: Heard, kind: str) -> Values:
    """Measures of :func:`search` with the settings of ``kind``, by name."""
    return {
        f"{kind}, {name}, {measure}": number
        for name, outcome in search(model, heard, SETTINGS[kind]).items()
        for measure, number in outcome._asdict().items()
    }


def ambiguous(heard: Heard, count: int = 60) -> Heard:
    """The first texts to which more than one answer fits."""
    pairs = zip(heard.texts, heard.answers, strict=True)
    return Heard.of([text for text, fit in pairs if len(fit) > 1][:count])


def sampling_values(model: Transformer, heard: Heard, draws: int = 10) -> Values:
    """Right and different answers of every sampler, of greedy and of the best ten."""
    values = {"answers": sum(map(len, heard.answers)) / len(heard.texts)}
    once = read(greedy(model, heard.source, **REQUEST))
    values["right, greedy"] = values["different, greedy"] = heard.share_right(once)
    for name, sampler in SAMPLERS.items():
        right, different = sound_out(model, heard, draws, **sampler)
        values[f"right, {name}"], values[f"different, {name}"] = right, different
    found = beam_search(
        model,
        heard.source,
        beam_size=draws,
        n_best=draws,
        length_penalty=0.0,
        **REQUEST,
    )
    hits = [
        sum(answer in fit for answer in read(rows[scores.isfinite()]))
        for rows, scores, fit in zip(*found, heard.answers, strict=True)
    ]
    values["right, best ten"] = sum(hits) / (draws * len(hits))
    values["different, best ten"] = sum(hits) / len(hits)
    return values


def measure(seed: int) -> dict[str, Values]:
    """Everything that is recorded for one seed: record -> measure -> number."""
    torch.set_num_threads(1)
    _, whole, gaps = numbers_for_seed(seed)
    model, hurried = train_model(seed), train_model(seed, **HURRIED)
    some = Heard.of(whole.texts[:100])
    return {
        "decoding_search": search_values(model, whole, "whole")
        | search_values(model, gaps, "gap"),
        "decoding_hurried": search_values(hurried, some, "hurried"),
        "decoding_sampling": sampling_values(model, ambiguous(gaps)),
    }


def _write_records(jobs: int) -> None:
    if jobs == 1:
        found = [measure(seed) for seed in _SEEDS]
    else:
        with multiprocessing.get_context("spawn").Pool(jobs) as pool:
            found = pool.map(measure, _SEEDS, chunksize=1)
    for name, first in found[0].items():
        values = {key: [one[name][key] for one in found] for key in first}
        write(name, _COMMAND, list(_SEEDS), values)


def _blame_of_seed(seed: int) -> tuple[int, int]:
    torch.set_num_threads(1)
    return blame(train_model(seed), numbers_for_seed(seed)[1])


def _write_blame(jobs: int) -> None:
    """Wrong answers to the texts without a gap, and those that the search missed."""
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        found = pool.map(_blame_of_seed, _SEEDS, chunksize=1)
    wrong, missed = zip(*found, strict=True)
    write("decoding_blame", _COMMAND, _SEEDS, {"wrong": wrong, "missed": missed})


def _write_model() -> None:
    tensors = train_model(0).state_dict()
    save_file({name: t.contiguous() for name, t in tensors.items()}, _checkpoint())


WIDGET_TEXTS = (
    "twelve million one hundred fifty two",
    "fourteen … four hundred twenty eight thousand six",
    "nine … three",
)
"""The texts whose trees the widget walks."""

_WIDEST = 4
_KEPT = 5


def tree(model: Transformer, text: Sequence[str]) -> dict[str, list[tuple[str, float]]]:
    """Record what follows each beginning that a beam of up to four may extend.

    Returns
    -------
    tree
        Beginning, as syllables joined -> the five likeliest next syllables (``"."`` is
        the end) and their log-probabilities.
    """
    source = torch.from_numpy(ENGLISH.encode([tuple(text)]))
    names = {KOREAN.eos_id: "."} | {i + 3: t for i, t in enumerate(KOREAN.tokens)}
    found: dict[str, list[tuple[str, float]]] = {}

    @torch.no_grad()
    def scores(prefix: tuple[int, ...]) -> list[tuple[int, float]]:
        ids = torch.tensor([[KOREAN.bos_id, *prefix]])
        log_p = model(source, ids)[0, -1].double().log_softmax(dim=-1)
        best = log_p.topk(_KEPT + 2).indices.tolist()
        real = [i for i in best if i in names][:_KEPT]
        pairs = [(i, round(log_p[i].item(), 4)) for i in real]
        found["".join(names[i] for i in prefix)] = [(names[i], p) for i, p in pairs]
        return pairs

    for width in range(1, _WIDEST + 1):
        beams: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
        places = width
        for _ in range(MAX_LEN):
            extended = [
                ((*prefix, i), total + p)
                for prefix, total in beams
                for i, p in scores(prefix)
            ]
            extended.sort(key=lambda item: -item[1])
            kept = extended[:places]
            beams = [item for item in kept if item[0][-1] != KOREAN.eos_id]
            places = len(beams)
            if not beams:
                break
    return found


def _write_widget() -> None:
    model = trained_model()
    trees = [
        {
            "heard": text,
            "fits": sorted("".join(korean_numeral(n)) for n in fitting(text.split())),
            "next": tree(model, text.split()),
        }
        for text in WIDGET_TEXTS
    ]
    file = Path(str(resources.files("transformer_lib.widgets"))) / "data/decoding.json"
    text = json.dumps(
        {"command": f"{_COMMAND} widget", "sounds": SOUNDS, "trees": trees},
        ensure_ascii=False,
        separators=(",", ":"),
    )
    file.write_text(text + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the records again, all or those that are named."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    names = ("model", "records", "blame", "widget")
    parser.add_argument("names", nargs="*", choices=[[], *names], metavar="NAME")
    parser.add_argument("--jobs", type=int, default=1, help="processes for the records")
    torch.set_num_threads(1)
    options = parser.parse_args(arguments)
    for name in options.names or names:
        if name == "model":
            _write_model()
        elif name == "records":
            _write_records(options.jobs)
        elif name == "blame":
            _write_blame(options.jobs)
        else:
            _write_widget()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
