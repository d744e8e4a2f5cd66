"""Exercises of chapter 12: rate, loss, batches, score, one update, going on."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from transformer_lib.exercises.engine import (
    Beyond,
    Exercise,
    Mistake,
    Probe,
    Property,
    Variant,
    numbers,
)
from transformer_lib.exercises.pencil import Blank, Pencil, Slip
from transformer_lib.reference.training import inverse_square_root, log_softmax

EXERCISES = (
    "pencil_training",
    "schedule",
    "smoothed_loss",
    "buckets",
    "exact_match",
    "resume",
    "repaired_update",
)

Function = Callable[..., Any]


# pencil_training: low, lot, slow

PENCIL_TRAINING = Pencil(
    name="pencil_training",
    statement="Work out three learning rates, a smoothed target, the loss of two "
    "micro-batches, a weight after Adam's first step, a clipped gradient, and two merges "
    "of byte-pair encoding.",
    blanks=(
        Blank(
            "rates",
            [0.125, 0.25, 0.125],
            "What is 4 to the power of -0.5, and of -1.5? Which of the two terms is the "
            "smaller one at each step?",
            tolerance=0.0051,
        ),
        Blank(
            "target",
            [0.05, 0.85, 0.05, 0.05],
            "0.2 is spread over four tokens. What is left for the right one, and what "
            "comes to it from the spreading?",
            tolerance=0.0051,
        ),
        Blank(
            "loss",
            2.5,
            "How large is the loss of all real tokens together, and how many are there?",
        ),
        Blank(
            "weight",
            0.9,
            "After one step, what are both means once their bias is divided out? What is "
            "0.5 divided by the root of 0.25?",
            tolerance=0.0051,
        ),
        Blank(
            "clipped",
            [0.6, 0.8],
            "How long is the vector (3, 4)?",
        ),
        Blank(
            "joined",
            [10, 7],
            "In which words does l stand before o, and how often do these occur?",
        ),
        Blank(
            "pieces",
            4,
            "Which of the two joined pairs does slot hold? The end mark is a piece, too.",
        ),
    ),
    mistakes=(
        Slip(
            "rates_max",
            "The larger of the two terms was taken.",
            "Does the rate grow for ever?",
            {"rates": [0.3536, 0.25, 1.0]},
        ),
        Slip(
            "rates_without_warmup",
            "That is the falling branch at every step; before step 4 the other term is "
            "smaller.",
            "At step 2, which is smaller: 2 to the power of -0.5, or 2/8?",
            {"rates": [0.3536, 0.25, 0.125]},
        ),
        Slip(
            "rates_without_width",
            "The width is missing: the factor 4 to the power of -0.5.",
            "What does d_model do to the rate?",
            {"rates": [0.25, 0.5, 0.25]},
        ),
        Slip(
            "target_spread_over_others",
            "That spreads 0.2 over the three wrong tokens. It is done, too, and it is "
            "not the convention of this chapter.",
            "How many tokens does the vocabulary have, the right one included?",
            {"target": [0.2 / 3, 0.8, 0.2 / 3, 0.2 / 3]},
        ),
        Slip(
            "target_not_divided",
            "Each wrong token gets the whole 0.2; the sum is no longer 1.",
            "What must a distribution sum to?",
            {"target": [0.2, 0.8, 0.2, 0.2]},
        ),
        Slip(
            "target_leaks",
            "The right token's own part of the 0.2 is missing, and the sum is 0.95.",
            "What must a distribution sum to?",
            {"target": [0.05, 0.8, 0.05, 0.05]},
        ),
        Slip(
            "target_stays_1",
            "The right token keeps the whole 1, and the sum is 1.15.",
            "What must a distribution sum to?",
            {"target": [0.05, 1.0, 0.05, 0.05]},
        ),
        Slip(
            "mean_of_means",
            "That is the mean of the two means, 2 and 4: the one token of the second "
            "micro-batch counts as much as three of the first.",
            "What would the loss be if all tokens stood in one batch?",
            {"loss": 3.0},
        ),
        Slip(
            "padding_counted",
            "The loss was divided by all eight places, padding included.",
            "How many of the eight places are real tokens?",
            {"loss": 1.25},
        ),
        Slip(
            "loss_per_micro_batch",
            "The loss was divided by the number of micro-batches.",
            "Over what is the mean taken?",
            {"loss": 5.0},
        ),
        Slip(
            "gradient_descent",
            "That is a step of plain gradient descent.",
            "By what does Adam divide the gradient?",
            {"weight": 0.95},
        ),
        Slip(
            "bias_left",
            "The bias of the two means was not divided out.",
            "The mean is 0.05 after one step. What is it divided by 1 - 0.9?",
            {"weight": 0.9293},
        ),
        Slip(
            "root_forgotten",
            "The gradient was divided by the mean of squares; the root is missing.",
            "What is the root of 0.25?",
            {"weight": 0.8},
        ),
        Slip(
            "uphill",
            "The step goes up the gradient.",
            "Should the loss rise or fall?",
            {"weight": 1.1},
        ),
        Slip(
            "clipped_each",
            "Each number was clipped by itself, and the direction has changed.",
            "By which one factor do both have to be multiplied?",
            {"clipped": [1.0, 1.0]},
        ),
        Slip(
            "clipped_by_the_sum",
            "They were divided by their sum; the length of a vector is the root of the "
            "sum of squares.",
            "What is the root of 9 + 16?",
            {"clipped": [3 / 7, 4 / 7]},
        ),
        Slip(
            "clipped_by_the_square",
            "They were divided by the sum of squares; the root is missing.",
            "What is the root of 25?",
            {"clipped": [0.12, 0.16]},
        ),
        Slip(
            "words_counted",
            "That counts words of the list; each counts as often as it occurs.",
            "How often does low occur?",
            {"joined": [3, 2]},
        ),
        Slip(
            "one_word_counted",
            "Only the word low was counted.",
            "In which other words does the pair stand?",
            {"joined": [5, 5]},
        ),
        Slip(
            "end_mark_forgotten",
            "The end mark was not counted.",
            "What stands behind the last letter of every word?",
            {"pieces": 3},
        ),
        Slip(
            "nothing_joined",
            "That is the number of letters and the end mark, with nothing joined.",
            "Does slot hold the pair l, o?",
            {"pieces": 5},
        ),
    ),
)


# schedule


def _schedule(
    choice: str = "min", up: str = "line", down: str = "root", width: str = "root"
) -> Function:
    """The learning rate of 2017, with the faults that are asked for."""

    def schedule_with(step: Any, d_model: Any, warmup: Any) -> Any:
        step, warmup = float(step), float(warmup)
        rising = {"line": step * warmup**-1.5, "steep": step * warmup**-0.5,
                  "share": step / warmup, "constant": warmup**-0.5}[up]  # fmt: skip
        if step == 0.0:
            falling = np.inf
        else:
            falling = {"root": step**-0.5, "line": 1.0 / step,
                       "constant": warmup**-0.5}[down]  # fmt: skip
        by = {"root": d_model**-0.5, "none": 1.0, "line": 1.0 / d_model,
              "times": d_model**0.5}[width]  # fmt: skip
        picked = {
            "min": min(rising, falling), "max": max(rising, falling),
            "falling": falling, "rising": rising, "sum": rising + falling,
            "product": rising * falling if step else 0.0,
            "by_step": rising if step < warmup else falling,
        }[choice]  # fmt: skip
        return by * picked

    return schedule_with


SCHEDULE = Exercise(
    name="schedule",
    arguments=("step", "d_model", "warmup"),
    statement="Return the learning rate of the 2017 paper for a step, counted from 1.",
    ask="At step = warmup both terms are equal. What are they before, and what after?",
    reference=_schedule(),
    probes=(
        Probe(1, 4, 1, about="the first step, without warm-up"),
        Probe(4, 4, 4, about="step = warmup, where the rate is highest"),
        Probe(2, 4, 4, about="a step of the warm-up"),
        Probe(3, 4, 4, about="the step before warmup"),
        Probe(9, 4, 4, about="a step after the warm-up"),
        Probe(2, 16, 25, about="an early step of a long warm-up, d_model = 16"),
        Probe(50, 16, 25, about="twice the warm-up, d_model = 16"),
        Probe(10, 512, 4000, about="step 10 of the base model"),
        Probe(20000, 512, 4000, about="step 20,000 of the base model"),
    ),
    beyond=(
        Beyond(
            Probe(0, 4, 4),
            "At step 0 it gives no rate of 0. PyTorch's LambdaLR asks for step 0 first: "
            "hand it step + 1, or treat 0 by itself.",
        ),
    ),
    variants=(
        Variant(
            "from_0",
            "yours counts the steps from 0, as PyTorch's schedulers do; the paper and "
            "this course count from 1.",
            lambda step, d_model, warmup: inverse_square_root(
                step + 1, d_model, warmup
            ),
        ),
    ),
    assemble=_schedule,
    mistakes=(
        Mistake(
            "max_for_min",
            "The larger of the two terms is taken; it is the smaller one.",
            "What should the rate do after the warm-up: grow, or fall?",
            settings={"choice": "max"},
        ),
        Mistake(
            "no_warm_up",
            "The rate falls from the first step on; the rising term is missing.",
            "What is the rate at step 1, and what should it be?",
            settings={"choice": "falling"},
        ),
        Mistake(
            "only_warm_up",
            "The rate rises for ever; the falling term is missing.",
            "What is the rate at twice the warm-up, and what should it be?",
            settings={"choice": "rising"},
        ),
        Mistake(
            "terms_added",
            "The two terms are added; the smaller one is taken.",
            "What are the two terms at step = warmup?",
            settings={"choice": "sum"},
        ),
        Mistake(
            "terms_multiplied",
            "The two terms are multiplied; the smaller one is taken.",
            "What are the two terms at step = warmup?",
            settings={"choice": "product"},
        ),
        Mistake(
            "jump",
            "The warm-up rises to 1, not to where the falling term begins: the rate jumps "
            "at its end.",
            "What are the two terms at step = warmup? Are they equal?",
            settings={"choice": "by_step", "up": "share"},
        ),
        Mistake(
            "warm_up_too_steep",
            "The rising term holds warmup to the power of -0.5; it is -1.5.",
            "At step = warmup both terms should be equal. Are they?",
            settings={"up": "steep"},
        ),
        Mistake(
            "warm_up_share",
            "The rising term is step/warmup; it is step times warmup to the power of -1.5.",
            "At step = warmup both terms should be equal. Are they?",
            settings={"up": "share"},
        ),
        Mistake(
            "constant_before",
            "During the warm-up the rate is constant; it should rise in a line.",
            "How large is the rate at step 1, if the warm-up is long?",
            settings={"up": "constant"},
        ),
        Mistake(
            "constant_after",
            "After the warm-up the rate is constant; it should fall.",
            "What is the rate at four times the warm-up, as a share of the highest?",
            settings={"down": "constant"},
        ),
        Mistake(
            "falls_too_fast",
            "The rate falls as 1/step; it falls with the root of the step.",
            "What is the rate at four times the warm-up, as a share of the highest?",
            settings={"down": "line"},
        ),
        Mistake(
            "width_forgotten",
            "The width of the model is not used.",
            "Which of the three arguments stands in none of your lines?",
            settings={"width": "none"},
        ),
        Mistake(
            "width_not_rooted",
            "The rate is divided by the width; it is divided by its root.",
            "What is 16 to the power of -0.5?",
            settings={"width": "line"},
        ),
        Mistake(
            "width_multiplied",
            "The rate is multiplied by the root of the width; it is divided by it.",
            "Should a wider model take larger steps?",
            settings={"width": "times"},
        ),
    ),
)


# smoothed_loss


def _smoothed_loss(
    target: str = "all", pads: str = "left_out", mean: str = "tokens",
    sign: str = "minus", each: str = "sum",
) -> Function:  # fmt: skip
    """Smoothed loss over micro-batches, with the faults that are asked for."""

    def smoothed_loss_with(log_p: Any, targets: Any, eps: Any) -> Any:
        sums, counts = [], []
        for logs, ids in zip(log_p, targets, strict=True):
            vocab = logs.shape[-1]
            right = np.arange(vocab) == ids[:, None]
            others = np.where(right, 0.0, 1.0)
            if target == "prediction":
                logs = np.log((1 - eps) * np.exp(logs) + eps / vocab)
            share = eps / vocab
            wrong = np.where(np.arange(vocab) == 0, 0.0, others)  # no padding
            q = {
                "all": (1 - eps) * right + share,
                "others": (1 - eps) * right + eps / (vocab - 1) * others,
                "others_but_padding": (1 - eps) * right + eps / (vocab - 2) * wrong,
                "hard": 1.0 * right,
                "prediction": 1.0 * right,
                "each": np.where(right, 1 - eps, eps),
                "stays": right + share,
                "leaks": np.where(right, 1 - eps, share),
                "swapped": eps * right + (1 - eps) / vocab,
            }[target]
            surprise = (q * logs).sum(axis=-1) / (vocab if each == "mean" else 1)
            real = ids != 0
            summed = surprise if pads in ("counted", "in_sum") else surprise[real]
            counted = ids if pads in ("counted", "in_count") else ids[real]
            sums.append(summed.sum() if sign == "plus" else -summed.sum())
            counts.append(len(counted))
        total = {
            "tokens": lambda: np.sum(sums) / np.sum(counts),
            "means": lambda: np.mean(np.array(sums) / np.array(counts)),
            "means_added": lambda: np.sum(np.array(sums) / np.array(counts)),
            "sum": lambda: np.sum(sums),
            "batches": lambda: np.sum(sums) / len(sums),
            "last": lambda: sums[-1] / counts[-1],
        }[mean]()
        return float(total)

    return smoothed_loss_with


def _chances(*rows: list[float]) -> np.ndarray:
    return np.asarray(np.log(rows))


def _drawn(seed: int, tokens: int, vocab: int) -> np.ndarray:
    return np.asarray(log_softmax(numbers(seed, tokens, vocab)).round(2))


SMOOTHED_LOSS = Exercise(
    name="smoothed_loss",
    arguments=("log_p", "targets", "eps"),
    statement="log_p and targets are lists with one array per micro-batch: (tokens, vocab) "
    "log-probabilities and (tokens,) token numbers, 0 for padding. Return the loss with "
    "label smoothing eps, averaged over the real tokens of all micro-batches.",
    ask="With eps = 0, what does each real token cost, and how many are there in all "
    "micro-batches?",
    reference=_smoothed_loss(),
    probes=(
        Probe(
            [_chances([0.25, 0.5, 0.125, 0.125])], [np.array([1])], 0.0,
            about="one token and eps = 0",
        ),
        Probe(
            [_chances([0.25, 0.5, 0.125, 0.125])], [np.array([1])], 0.2,
            about="one token and eps = 0.2",
        ),
        Probe(
            [_chances([0.1, 0.5, 0.2, 0.2], [0.7, 0.1, 0.1, 0.1])],
            [np.array([1, 0])], 0.0, about="one token, one padding, eps = 0",
        ),
        Probe(
            [_chances([0.1, 0.5, 0.2, 0.2], [0.1, 0.2, 0.1, 0.6], [0.2, 0.3, 0.4, 0.1]),
             _chances([0.4, 0.1, 0.1, 0.4])],
            [np.array([1, 3, 2]), np.array([2])], 0.0,
            about="micro-batches of three tokens and of one, eps = 0",
        ),
        Probe(
            [_drawn(1201, 4, 5), _drawn(1202, 4, 5)],
            [np.array([1, 4, 2, 3]), np.array([2, 0, 0, 0])], 0.1,
            about="two micro-batches, padding, eps = 0.1",
        ),
        Probe(
            [_drawn(1203, 2, 6), _drawn(1204, 5, 6), _drawn(1205, 3, 6)],
            [np.array([3, 0]), np.array([5, 1, 2, 4, 0]), np.array([1, 2, 0])], 0.3,
            about="three micro-batches, padding, eps = 0.3",
        ),
    ),
    properties=(
        Property(
            "A loss is never below 0, and this one is.",
            lambda got, log_p, targets, eps: bool(got >= 0.0),
        ),
    ),
    beyond=(
        Beyond(
            Probe(
                [_drawn(1206, 2, 4), _drawn(1207, 2, 4)],
                [np.array([1, 2]), np.array([0, 0])], 0.1,
            ),
            "One micro-batch here is nothing but padding. A sum divided by a count, over "
            "all micro-batches, does not mind.",
        ),
    ),
    variants=(
        Variant(
            "over_the_others",
            "yours spreads eps over the V - 1 wrong tokens. This course, like "
            "torch.nn.functional.cross_entropy, spreads it over all V.",
            _smoothed_loss(target="others"),
        ),
        Variant(
            "nothing_for_padding",
            "yours spreads eps over the V - 2 tokens that are neither right nor padding. "
            "This course spreads it over all V.",
            _smoothed_loss(target="others_but_padding"),
        ),
    ),
    assemble=_smoothed_loss,
    mistakes=(
        Mistake(
            "padding_counted",
            "Padding costs and counts like any token.",
            "What does the second token of the input shown ask of the model?",
            settings={"pads": "counted"},
        ),
        Mistake(
            "padding_in_the_count",
            "Padding costs nothing, and still counts in the division.",
            "How many real tokens are there?",
            settings={"pads": "in_count"},
        ),
        Mistake(
            "padding_in_the_sum",
            "Padding does not count in the division, and still costs.",
            "What does a padding token ask of the model?",
            settings={"pads": "in_sum"},
        ),
        Mistake(
            "mean_of_means",
            "Each micro-batch is averaged by itself, and then their means: a token of a "
            "short micro-batch counts more.",
            "What would the loss be if all tokens stood in one batch?",
            settings={"mean": "means"},
        ),
        Mistake(
            "means_added",
            "The means of the micro-batches are added up: more micro-batches, a larger "
            "loss.",
            "What would the loss be if all tokens stood in one batch?",
            settings={"mean": "means_added"},
        ),
        Mistake(
            "not_averaged",
            "The loss is the sum over the tokens; it is not divided by their number.",
            "What should happen to the loss when every token is there twice?",
            settings={"mean": "sum"},
        ),
        Mistake(
            "per_micro_batch",
            "The sum is divided by the number of micro-batches, not of tokens.",
            "What is the mean taken over?",
            settings={"mean": "batches"},
        ),
        Mistake(
            "last_micro_batch_only",
            "Only the last micro-batch is in the loss.",
            "Which variable is overwritten in your loop?",
            settings={"mean": "last"},
        ),
        Mistake(
            "not_smoothed",
            "eps is not used.",
            "What is the wanted distribution of a token at eps = 0.2?",
            settings={"target": "hard"},
        ),
        Mistake(
            "eps_for_each",
            "Each wrong token is asked for with eps; eps is what they share.",
            "What do the wanted chances sum to?",
            settings={"target": "each"},
        ),
        Mistake(
            "right_token_keeps_1",
            "The right token is asked for with its whole 1, and eps comes on top.",
            "What do the wanted chances sum to?",
            settings={"target": "stays"},
        ),
        Mistake(
            "target_leaks",
            "The wrong tokens get eps/V each and the right one 1 - eps: eps/V is missing.",
            "What do the wanted chances sum to?",
            settings={"target": "leaks"},
        ),
        Mistake(
            "eps_swapped",
            "The right token gets eps, and 1 - eps is spread.",
            "What is the wanted distribution at eps = 0?",
            settings={"target": "swapped"},
        ),
        Mistake(
            "prediction_smoothed",
            "The model's chances are smoothed; it is the target that should be.",
            "Which of the two is the model being taught, and which is its answer?",
            settings={"target": "prediction"},
        ),
        Mistake(
            "mean_over_the_vocabulary",
            "The sum over the vocabulary is a mean: the loss is V times too small.",
            "What does one token cost at eps = 0, whatever the size of the vocabulary?",
            settings={"each": "mean"},
        ),
        Mistake(
            "sign",
            "The sign is wrong: a better model has a larger number here.",
            "Is the logarithm of a chance positive or negative?",
            settings={"sign": "plus"},
        ),
    ),
)  # fmt: skip


# buckets


def _buckets(
    order: str = "rising", size: str = "padded", limit: str = "at_most",
    result: str = "places", last: str = "kept",
) -> Function:  # fmt: skip
    """The batch of each sentence, with the faults that are asked for."""

    def buckets_with(lengths: Any, max_tokens: Any) -> Any:
        places = {"rising": np.argsort(lengths, kind="stable"),
                  "falling": np.argsort(-lengths, kind="stable"),
                  "given": np.arange(len(lengths))}[order]  # fmt: skip
        batches: list[list[int]] = []
        for place in places:
            batch = batches[-1] if batches else []
            after = lengths[[*batch, place]]
            rows, longest = len(after), after.max()
            longest_before = max(lengths[batch], default=0)
            tokens = {"padded": rows * longest, "sum": after.sum(), "rows": rows,
                      "shortest": rows * after.min(), "old_rows": (rows - 1) * longest,
                      "old_longest": rows * longest_before}[size]  # fmt: skip
            if limit == "crossing":
                full = (rows - 1) * longest_before >= max_tokens
            else:
                full = tokens >= max_tokens if limit == "below" else tokens > max_tokens
            full = full or not batch
            if full:
                batches.append([])
            batches[-1].append(place)
        out = np.zeros(len(lengths), dtype=int)
        for number, batch in enumerate(batches):
            if last == "lost" and number == len(batches) - 1:
                break
            out[batch] = number
        if result == "sorted":
            return out[places]
        if result == "from_1":
            return out + 1
        return out

    return buckets_with


def _fits(got: np.ndarray, lengths: np.ndarray, max_tokens: int) -> bool:
    """Whether no batch is larger than the budget, padding included."""
    if got.shape != lengths.shape:
        return True
    return all(
        (got == number).sum() * lengths[got == number].max() <= max_tokens
        for number in np.unique(got)
    )


BUCKETS = Exercise(
    name="buckets",
    arguments=("lengths", "max_tokens"),
    statement="Take the sentences from the shortest to the longest and close a batch when "
    "one more would make it, padded to its longest sentence, larger than max_tokens. "
    "Return for each sentence the number of its batch, from 0.",
    ask="Write the lengths in rising order. How many rows and how many columns does the "
    "first batch have when it is closed?",
    reference=_buckets(),
    probes=(
        Probe(np.array([3, 3, 3]), 6, about="three sentences of one length"),
        Probe(np.array([2, 4]), 8, about="a batch that fills the budget exactly"),
        Probe(np.array([1, 1, 6]), 9, about="two short sentences and a long one"),
        Probe(np.array([5, 2, 9, 3, 4]), 10, about="lengths out of order"),
        Probe(
            np.array([7, 1, 3, 12, 2, 8, 5, 4]), 16, about="eight sentences and 16"
        ),
        Probe(
            np.array([11, 2, 6, 9, 3, 14, 7, 5, 4, 10]), 30,
            about="ten sentences and 30",
        ),
    ),
    properties=(
        Property("One of the batches is larger than max_tokens.", _fits),
    ),
    variants=(
        Variant(
            "longest_first",
            "yours begins with the longest sentences. That is good practice, too: a batch "
            "that does not fit into memory then fails at once.",
            _buckets(order="falling"),
        ),
    ),
    assemble=_buckets,
    mistakes=(
        Mistake(
            "padding_not_counted",
            "The lengths of the batch are added up; padded to the longest, it is larger.",
            "How many columns does the array have that holds the batch?",
            settings={"size": "sum"},
        ),
        Mistake(
            "sentences_counted",
            "The number of sentences is compared with max_tokens.",
            "How many numbers does a batch of two sentences of length 6 hold?",
            settings={"size": "rows"},
        ),
        Mistake(
            "shortest_for_longest",
            "The rows are multiplied by the shortest length; the longest decides.",
            "In rising order, which sentence of a batch is the longest?",
            settings={"size": "shortest"},
        ),
        Mistake(
            "new_row_not_counted",
            "The sentence that is about to be added is not counted as a row.",
            "How many rows does the batch have with it?",
            settings={"size": "old_rows"},
        ),
        Mistake(
            "new_length_not_counted",
            "The size is worked out with the longest so far; the new sentence is longer.",
            "How many columns does the batch have with the new sentence?",
            settings={"size": "old_longest"},
        ),
        Mistake(
            "exactly_full_refused",
            "A batch that would fill max_tokens exactly is closed too early.",
            "Is 8 larger than 8?",
            settings={"limit": "below"},
        ),
        Mistake(
            "crossing_kept",
            "A batch is closed only when it has reached max_tokens: the sentence that "
            "crosses it is in it.",
            "Do you look before the sentence is added, or after?",
            settings={"limit": "crossing"},
        ),
        Mistake(
            "not_sorted",
            "The sentences are taken in the order in which they stand.",
            "Which lengths come together in a batch?",
            settings={"order": "given"},
        ),
        Mistake(
            "left_in_order",
            "The batch numbers are returned in sorted order, not in the places of the "
            "sentences.",
            "Which sentence does the first number belong to?",
            settings={"result": "sorted"},
        ),
        Mistake(
            "from_1",
            "The batches are counted from 1.",
            "Which number does the first batch have?",
            settings={"result": "from_1"},
        ),
        Mistake(
            "last_batch_lost",
            "The last batch gets no number: it is never closed, since no sentence comes "
            "after it.",
            "What happens to the batch that is open when the loop ends?",
            settings={"last": "lost"},
        ),
    ),
)  # fmt: skip


# exact_match


def _exact_match(
    unit: str = "sentence", cut: str = "end", result: str = "percent"
) -> Function:
    """Share of sentences without a mistake, with the faults that are asked for."""

    def exact_match_with(written: Any, wanted: Any, eos_id: Any) -> Any:
        width = min(written.shape[1], wanted.shape[1])
        written, wanted = written[:, :width], wanted[:, :width]
        ends = wanted == eos_id
        upto = np.cumsum(ends, axis=1) - ends == 0
        counts = {"end": upto, "before_end": upto & ~ends,
                  "none": np.full_like(upto, True)}.get(cut, upto)  # fmt: skip
        same = (written == wanted) | ~counts
        if cut in ("removed", "unfinished"):
            rows = [
                _tokens(w, eos_id, cut) == _tokens(t, eos_id, cut)
                for w, t in zip(written, wanted, strict=True)
            ]
            same = np.array(rows)[:, None] & np.full_like(upto, True)
        judged = {
            "sentence": same.all(axis=1), "token": same[counts], "all": same.all(),
            "column": same.all(axis=0), "any": same.any(axis=1),
            "length": (upto.sum(axis=1) == _ends(written, eos_id)),
        }[unit]  # fmt: skip
        share = np.mean(judged)
        return {"percent": 100.0 * share, "share": share, "count": np.sum(judged),
                "wrong": 100.0 * (1.0 - share)}[result]  # fmt: skip

    return exact_match_with


def _tokens(row: np.ndarray, eos_id: int, cut: str) -> list[int]:
    """The tokens of a sentence as text would show them, without marks."""
    ids = row.tolist()
    if cut == "unfinished" and eos_id in ids:
        ids = ids[: ids.index(eos_id)]
    return [i for i in ids if i not in (0, eos_id)]


def _ends(rows: np.ndarray, eos_id: int) -> np.ndarray:
    """Number of tokens up to the first end of each row, that one included."""
    ends = rows == eos_id
    return np.asarray((np.cumsum(ends, axis=1) - ends == 0).sum(axis=1))


_WANTED = np.array([[5, 6, 2, 0, 0], [7, 2, 0, 0, 0], [8, 5, 6, 9, 2]])

EXACT_MATCH = Exercise(
    name="exact_match",
    arguments=("written", "wanted", "eos_id"),
    statement="written and wanted (sentences, tokens) hold token numbers. A sentence ends "
    "with its first eos_id, and what stands behind it does not count. Return the percentage "
    "of sentences that are written without any mistake.",
    ask="Cut every row behind its first end. Which rows of the input shown are equal then?",
    reference=_exact_match(),
    probes=(
        Probe(_WANTED, _WANTED, 2, about="every sentence right"),
        Probe(
            np.array([[5, 6, 2, 0]]), np.array([[5, 7, 2, 0]]), 2,
            about="one sentence, one token wrong",
        ),
        Probe(
            np.array([[5, 6, 2, 9, 9], [7, 2, 7, 2, 0], [8, 5, 6, 9, 2]]), _WANTED, 2,
            about="every sentence right, and more behind the end",
        ),
        Probe(
            np.array([[5, 6, 7, 2, 0], [7, 2, 0, 0, 0], [8, 5, 6, 9, 2]]), _WANTED, 2,
            about="a sentence that goes on where it should end",
        ),
        Probe(
            np.array([[5, 2, 6, 2, 0], [7, 2, 0, 0, 0], [8, 5, 6, 9, 2]]), _WANTED, 2,
            about="a sentence that ends too early",
        ),
        Probe(
            np.array([[5, 6, 0, 0, 0], [7, 2, 0, 0, 0], [8, 5, 6, 9, 2]]), _WANTED, 2,
            about="a sentence without an end",
        ),
        Probe(
            np.array([[4, 3, 9, 0, 0, 7], [4, 5, 3, 8, 3, 0], [6, 8, 8, 4, 3, 0],
                      [3, 4, 0, 0, 0, 0], [5, 3, 0, 0, 0, 0]]),
            np.array([[4, 3, 0, 0, 0, 0], [4, 5, 3, 0, 0, 0], [6, 8, 7, 4, 3, 0],
                      [4, 3, 0, 0, 0, 0], [6, 5, 3, 0, 0, 0]]), 3,
            about="five sentences, and 3 is the end",
        ),
    ),
    beyond=(
        Beyond(
            Probe(np.array([[5, 6, 2]]), np.array([[5, 6, 2, 0, 0]]), 2),
            "The two arrays have different widths here, as when written sentences are "
            "padded by themselves. Cut each row behind its end before comparing.",
        ),
    ),
    variants=(
        Variant(
            "unfinished",
            "yours takes a sentence with the right tokens and no end as right, as a "
            "comparison of decoded text does.",
            _exact_match(cut="unfinished"),
        ),
    ),
    assemble=_exact_match,
    mistakes=(
        Mistake(
            "token_accuracy",
            "That is the percentage of right tokens. One wrong digit makes a date wrong.",
            "How many sentences are there to be counted?",
            settings={"unit": "token"},
        ),
        Mistake(
            "places_counted",
            "That is the percentage of equal places, padding included: it rises with "
            "every column of padding.",
            "What should the score be if every sentence has one wrong token?",
            settings={"unit": "token", "cut": "none"},
        ),
        Mistake(
            "rest_compared",
            "What stands behind the end is compared as well.",
            "Who reads what a model writes behind the end?",
            settings={"cut": "none"},
        ),
        Mistake(
            "end_left_out",
            "The end itself is not compared: a sentence that goes on passes as right.",
            "Is 1914-07-13 right if it is written as 1914-07-131?",
            settings={"cut": "before_end"},
        ),
        Mistake(
            "ends_removed",
            "Ends and padding are removed wherever they stand, so that a sentence does "
            "not end anywhere.",
            "What is left of the written row 5, 2, 6, 2?",
            settings={"cut": "removed"},
        ),
        Mistake(
            "columns",
            "The tokens are joined along the wrong axis: places are counted, not "
            "sentences.",
            "Which axis is one sentence?",
            settings={"unit": "column"},
        ),
        Mistake(
            "any_token",
            "A sentence counts as right when one of its tokens is.",
            "np.any or np.all?",
            settings={"unit": "any"},
        ),
        Mistake(
            "all_or_nothing",
            "One wrong sentence makes the whole score 0.",
            "Which axis does your np.all run over?",
            settings={"unit": "all"},
        ),
        Mistake(
            "lengths_only",
            "Only the lengths are compared, or where the ends stand.",
            "Is every date of ten characters right?",
            settings={"unit": "length"},
        ),
        Mistake(
            "share_for_percent",
            "That is a share, from 0 to 1; percent are wanted.",
            "How many percent is a half?",
            settings={"result": "share"},
        ),
        Mistake(
            "number_for_percent",
            "That is the number of right sentences.",
            "How many percent are 3 of 3?",
            settings={"result": "count"},
        ),
        Mistake(
            "errors_counted",
            "That is the percentage of wrong sentences.",
            "What should the score be when all is right?",
            settings={"result": "wrong"},
        ),
    ),
)  # fmt: skip


# resume: a trainer small enough to be looked at

_INPUTS = np.array(
    [[1.0, 0.0, 2.0], [0.0, 1.0, -1.0], [2.0, 1.0, 0.0],
     [-1.0, 2.0, 1.0], [1.0, 1.0, 1.0], [0.0, -2.0, 1.0]]
)  # fmt: skip
_LABELS = np.array([4.0, -2.0, 0.0, 1.0, 2.0, 3.0])


class TinyTrainer:
    """A linear model of three weights, trained by Adam on six examples.

    All that it is stands in its attributes. Steps change the arrays in place, as those of
    torch do.

    Parameters
    ----------
    dropout
        Chance of an input to be dropped in a step, from 0 to below 1.

    Attributes
    ----------
    weights
        The three weights.
    mean, square
        Adam's running means, of the gradients and of their squares.
    updates
        Number of steps taken: Adam's bias and the learning rate depend on it.
    order
        The order in which this epoch takes the examples.
    place
        How many of them it has taken.
    generator
        Draws the order of each epoch, and what is dropped.

    Raises
    ------
    ValueError
        If ``dropout`` is outside [0, 1).

    Examples
    --------
    >>> trainer = TinyTrainer()
    >>> losses = trainer.run(60)
    >>> bool(losses[-6:].mean() < losses[:6].mean() / 10)
    True
    """

    def __init__(self, dropout: int | float = 0.0) -> None:
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout: got {dropout}, wanted a number in [0, 1)")
        self.generator = np.random.default_rng(12)
        self.weights = np.zeros(3)
        self.mean = np.zeros(3)
        self.square = np.zeros(3)
        self.updates = 0
        self.order = self.generator.permutation(len(_LABELS))
        self.place = 0
        self.dropout = dropout

    def step(self) -> float:
        """Take the next example and go one step; return its squared error before."""
        if self.place == len(self.order):
            self.order = self.generator.permutation(len(self.order))
            self.place = 0
        example = self.order[self.place]
        self.place += 1
        kept = self.generator.random(3) >= self.dropout
        x = _INPUTS[example] * kept / (1.0 - self.dropout)
        error = x @ self.weights - _LABELS[example]
        gradient = error * x
        self.updates += 1
        self.mean += 0.1 * (gradient - self.mean)
        self.square += 0.02 * (gradient**2 - self.square)
        mean = self.mean / (1.0 - 0.9**self.updates)
        square = self.square / (1.0 - 0.98**self.updates)
        lr = 0.5 * min(self.updates / 4.0, (4.0 / self.updates) ** 0.5)
        self.weights -= lr * mean / (np.sqrt(square) + 1e-9)
        return float(error**2)

    def run(self, steps: int) -> np.ndarray:
        """Go so many steps; return their losses, shape ``(steps,)``."""
        return np.array([self.step() for _ in range(steps)])


def rehearse(
    save: Callable[[TinyTrainer], Any], restore: Callable[[TinyTrainer, Any], Any]
) -> Callable[..., Any]:
    """Make the function that ``check("resume", ...)`` calls: a crash, played twice.

    Parameters
    ----------
    save
        Takes a trainer and returns its state, of any form.
    restore
        Takes a new trainer and a state, and changes the trainer.

    Returns
    -------
    resume
        ``resume(before, after, dropout)`` trains for ``before`` steps, calls ``save``, and
        trains on: that part of the run is lost. Twice it makes a new trainer, calls
        ``restore`` on it with the same state, and lets it go ``after`` steps. The losses
        have shape ``(2, after)``; both rows should be those of a run without a crash. It
        returns ``...`` if ``save`` returned ``None``.

    Raises
    ------
    TypeError
        If one of the two is no function.

    Examples
    --------
    >>> def save(trainer):
    ...     return trainer.weights.copy()
    >>> def restore(trainer, state):
    ...     trainer.weights = state.copy()
    >>> rehearse(save, restore)(before=4, after=2, dropout=0.0).shape
    (2, 2)
    """
    for name, function in (("save", save), ("restore", restore)):
        if not callable(function):
            raise TypeError(
                f"{name}: got a value of type {type(function).__name__}, wanted a "
                "function, as in rehearse(my_save, my_restore)"
            )

    def resume(before: int, after: int, dropout: int | float) -> Any:
        trainer = TinyTrainer(dropout)
        trainer.run(before)
        state = save(trainer)
        if state is None or state is Ellipsis:
            return ...
        trainer.run(after)
        losses = []
        for _ in range(2):
            new = TinyTrainer(dropout)
            restore(new, state)
            losses.append(new.run(after))
        return np.array(losses)

    return resume


_MOMENTS = ("mean", "square")
_ARRAYS = ("weights", *_MOMENTS)


def _resume(
    moments: str = "kept", updates: str = "kept", epoch: str = "kept",
    generator: str = "copied", saved: str = "copies", restored: str = "copies",
    handed: str = "copied", all_of_it: str = "kept",
) -> Function:  # fmt: skip
    """A rehearsed crash, with the faults that are asked for."""
    left_out = {
        *{"forgotten": _MOMENTS, "mean_only": ("square",), "square_only": ("mean",)}.get(
            moments, ()
        ),
        *(("updates",) if updates == "forgotten" else ()),
        *{"forgotten": ("order", "place"), "order_only": ("place",),
          "place_only": ("order",)}.get(epoch, ()),
        *(("generator",) if generator == "forgotten" else ()),
        *{"nothing": tuple(vars(TinyTrainer())),
          "weights": tuple(n for n in vars(TinyTrainer()) if n != "weights"),
          "arrays": ("updates", "order", "place", "generator"),
          "without_weights": ("weights",)}.get(all_of_it, ()),
    }  # fmt: skip

    def save(trainer: TinyTrainer) -> dict[str, Any]:
        own = vars(trainer)
        if saved == "alive":
            return own
        shared = {"copies": (), "shared": _ARRAYS, "moments_shared": _MOMENTS}[saved]
        if generator == "shared":
            shared = (*shared, "generator")
        return {n: v if n in shared else copy.deepcopy(v) for n, v in own.items()}

    def restore(trainer: TinyTrainer, state: dict[str, Any]) -> None:
        shared = {"copies": (), "shared": _ARRAYS}[restored]
        if handed == "shared":
            shared = (*shared, "generator")
        for name, value in state.items():
            if name not in left_out:
                new = value if name in shared else copy.deepcopy(value)
                setattr(trainer, name, new)
        if updates == "one_more":
            trainer.updates += 1
        if epoch == "next":
            trainer.place += 1
        elif epoch == "again":
            trainer.place = max(trainer.place - 1, 0)

    return rehearse(save, restore)


RESUME = Exercise(
    name="resume",
    arguments=("before", "after", "dropout"),
    statement="Write save(trainer), which returns the state of a TinyTrainer, and "
    "restore(trainer, state), which puts it into a new one, so that the new trainer goes "
    "on exactly as the old one did. The same state may be restored more than once.",
    ask="Which attributes does a step read, and which does it change?",
    reference=_resume(),
    probes=(
        Probe(0, 3, 0.0, about="a crash before the first step, without dropout"),
        Probe(4, 2, 0.0, about="a crash in the first epoch, without dropout"),
        Probe(6, 4, 0.0, about="a crash at the end of an epoch, without dropout"),
        Probe(8, 4, 0.0, about="a crash in the second epoch, without dropout"),
        Probe(3, 3, 0.4, about="a crash in the first epoch, with dropout"),
        Probe(10, 7, 0.4, about="a crash in the second epoch, with dropout"),
    ),
    properties=(
        Property(
            "The second restart, from the same state, does not repeat the first.",
            lambda got, before, after, dropout: bool(np.allclose(got[0], got[1])),
        ),
    ),
    assemble=_resume,
    mistakes=(
        Mistake(
            "nothing_restored",
            "After restore the new trainer is as new as before.",
            "Which lines of restore change an attribute of the trainer?",
            settings={"all_of_it": "nothing"},
        ),
        Mistake(
            "weights_only",
            "Only the weights go on; everything else begins anew.",
            "What does a step read besides the weights?",
            settings={"all_of_it": "weights"},
        ),
        Mistake(
            "weights_and_moments_only",
            "The weights and Adam's running means go on; the number of steps, the epoch and "
            "the generator begin anew.",
            "What else does a step read and change?",
            settings={"all_of_it": "arrays"},
        ),
        Mistake(
            "weights_forgotten",
            "Everything goes on but the weights themselves.",
            "Which attribute is the model?",
            settings={"all_of_it": "without_weights"},
        ),
        Mistake(
            "moments_forgotten",
            "Adam's running means begin at 0 again.",
            "By what is the gradient divided in a step?",
            settings={"moments": "forgotten"},
        ),
        Mistake(
            "square_forgotten",
            "Adam's mean of the squares begins at 0 again: the first steps are far too "
            "long.",
            "Adam keeps two running means. Which are they?",
            settings={"moments": "mean_only"},
        ),
        Mistake(
            "mean_forgotten",
            "Adam's mean of the gradients begins at 0 again.",
            "Adam keeps two running means. Which are they?",
            settings={"moments": "square_only"},
        ),
        Mistake(
            "updates_forgotten",
            "The number of steps begins at 0 again, and with it the warm-up and the "
            "correction of Adam's bias.",
            "Which attribute does the learning rate depend on?",
            settings={"updates": "forgotten"},
        ),
        Mistake(
            "one_update_too_many",
            "The number of steps is one too high after restore.",
            "How many steps were taken when save was called?",
            settings={"updates": "one_more"},
        ),
        Mistake(
            "place_forgotten",
            "The epoch begins again from its first example; some are seen twice.",
            "How many examples of this epoch were taken already?",
            settings={"epoch": "order_only"},
        ),
        Mistake(
            "order_forgotten",
            "The place in the epoch is kept, and its order is not: some examples are seen "
            "twice, others not at all.",
            "The order of the second epoch was drawn when it began. Can a new trainer "
            "know it?",
            settings={"epoch": "place_only"},
        ),
        Mistake(
            "epoch_forgotten",
            "The data begin anew: order and place are those of a new trainer.",
            "Which example would the old trainer have taken next?",
            settings={"epoch": "forgotten"},
        ),
        Mistake(
            "example_skipped",
            "One example is skipped at the crash.",
            "Which example would the old trainer have taken next?",
            settings={"epoch": "next"},
        ),
        Mistake(
            "example_repeated",
            "The last example before the crash is taken once more.",
            "Which example would the old trainer have taken next?",
            settings={"epoch": "again"},
        ),
        Mistake(
            "generator_forgotten",
            "The generator begins anew, so that other inputs are dropped and later epochs "
            "come in another order.",
            "Which attribute changes whenever a random number is drawn?",
            settings={"generator": "forgotten"},
        ),
        Mistake(
            "saved_without_copies",
            "The state holds the trainer's own arrays, and the old run goes on changing "
            "them.",
            "What is in the state after the old trainer has taken another step?",
            settings={"saved": "shared"},
        ),
        Mistake(
            "state_is_alive",
            "The state is the old trainer itself, or its own dict, and changes with every "
            "step of the old run: the new ones begin where that run ended.",
            "vars(trainer) is no copy. What does it hold after another step?",
            settings={"saved": "alive"},
        ),
        Mistake(
            "nothing_copied",
            "The state is the old trainer itself, or its own dict, and the new trainers "
            "get its own arrays and its own generator.",
            "vars(trainer) is no copy. What does it hold after another step?",
            settings={"saved": "alive", "restored": "shared", "handed": "shared"},
        ),
        Mistake(
            "moments_not_copied",
            "The state holds copies of the weights, and the trainer's own running means, "
            "which the old run goes on changing.",
            "Which arrays does a step change in place?",
            settings={"saved": "moments_shared"},
        ),
        Mistake(
            "generator_not_copied",
            "The state holds the trainer's own generator, and the old run goes on drawing "
            "from it.",
            "Does a second name for a generator make a second generator?",
            settings={"generator": "shared"},
        ),
        Mistake(
            "restored_without_copies",
            "The first restart is right, and it trains the arrays of the state itself: "
            "the second begins where the first ended.",
            "Whose arrays does the restarted trainer change in place?",
            settings={"restored": "shared"},
        ),
        Mistake(
            "generator_handed_over",
            "The first restart is right, and it draws from the generator in the state: "
            "the second goes on drawing where the first ended.",
            "How many generators do two restarts need?",
            settings={"handed": "shared"},
        ),
        Mistake(
            "all_shared",
            "Nothing is copied: old trainer, state and new trainers share the same arrays "
            "and the same generator.",
            "dict(...) makes a new dict. Does it make new arrays?",
            settings={"saved": "shared", "generator": "shared", "restored": "shared",
                      "handed": "shared"},
        ),
        Mistake(
            "arrays_shared",
            "The arrays are copied neither in save nor in restore: old trainer, state and "
            "new trainers share them.",
            "Which arrays does a step change in place?",
            settings={"saved": "shared", "restored": "shared"},
        ),
    ),
)  # fmt: skip


# repaired_update: several updates, each of several micro-batches


def _update(
    reset: str = "each", weight: str = "tokens", clip_by: str = "norm",
    step: str = "update", sign: str = "down",
) -> Function:  # fmt: skip
    """Gradient descent on a linear model, with the faults that are asked for."""

    def shortened(dw: Any, db: Any, clip: float) -> tuple[Any, Any]:
        both = np.sqrt(dw @ dw + db**2)
        if clip_by == "none":
            return dw, db
        if clip_by == "value":
            return np.clip(dw, -clip, clip), np.clip(db, -clip, clip)
        if clip_by == "each":
            return (dw * min(1.0, clip / np.sqrt(dw @ dw)),
                    db * min(1.0, clip / abs(db)))  # fmt: skip
        if clip_by == "w_only":
            return dw * min(1.0, clip / np.sqrt(dw @ dw)), db
        factor = {"always": clip / both, "square": min(1.0, clip / both**2),
                  "norm_of_w": min(1.0, clip / np.sqrt(dw @ dw)),
                  }.get(clip_by, min(1.0, clip / both))  # fmt: skip
        return dw * factor, db * factor

    def update_with(w: Any, b: Any, updates: Any, lr: Any, clip: Any) -> Any:
        rate = -lr if sign == "up" else lr
        dw, db = np.zeros_like(w), np.float64(0.0)
        for micro_batches in updates:
            if reset == "each":
                dw, db = np.zeros_like(w), np.float64(0.0)
            tokens = sum(len(y) for _, y in micro_batches)
            for X, y in micro_batches:
                error = X @ w + b - y
                if reset == "inside":
                    dw, db = np.zeros_like(w), np.float64(0.0)
                by = {"tokens": tokens, "batches": len(y) * len(micro_batches),
                      "sum": 1, "means_added": len(y),
                      "last": len(micro_batches[-1][1])}[weight]  # fmt: skip
                if step == "micro":
                    by = len(y)
                    dw, db = np.zeros_like(w), np.float64(0.0)
                more_w, more_b = X.T @ error / by, error.sum() / by
                if clip_by == "micro":
                    more_w, more_b = shortened(more_w, more_b, clip)
                dw, db = dw + more_w, db + more_b
                if step == "micro":
                    dw, db = shortened(dw, db, clip)
                    w, b = w - rate * dw, b - rate * db
            if step == "micro":
                continue
            if clip_by != "micro":
                dw, db = shortened(dw, db, clip)
            w, b = w - rate * dw, b - rate * db
        return w, b

    return update_with


def _micro(seed: int, tokens: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    return numbers(seed, tokens, d), numbers(seed + 1, tokens)


_ONE = (np.array([[1.0, 0.0]]), np.array([-4.0]))
_TWO = (np.array([[0.0, 1.0], [0.0, 1.0]]), np.array([1.0, 4.0]))

REPAIRED_UPDATE = Exercise(
    name="repaired_update",
    arguments=("w", "b", "updates", "lr", "clip"),
    statement="Repair the gradient descent on the loss (X w + b - y)^2 / 2. updates is a "
    "list of updates, each a list of micro-batches (X, y). An update goes one step down the "
    "gradient of its mean over all tokens, clipped to the norm clip over w and b "
    "together.",
    ask="What is the gradient of the mean over all tokens of the first update, and how long "
    "is it?",
    reference=_update(),
    returns=("w", "b"),
    probes=(
        Probe(
            np.zeros(2), 0.0, [[_TWO]], 0.5, 100.0,
            about="one update of one micro-batch, not clipped",
        ),
        Probe(
            np.zeros(2), 0.0, [[_ONE], [_TWO]], 0.5, 100.0,
            about="two updates of one micro-batch, not clipped",
        ),
        Probe(
            np.zeros(2), 0.0, [[_ONE, _TWO]], 0.5, 100.0,
            about="micro-batches of one token and of two, not clipped",
        ),
        Probe(
            np.zeros(2), 0.0, [[_ONE]], 1.0, 1.0,
            about="one update of one micro-batch, clipped",
        ),
        Probe(
            np.array([0.5, -1.0]), 0.2,
            [[_micro(1211, 4, 2), _micro(1213, 1, 2)], [_micro(1215, 2, 2)]], 0.3, 0.5,
            about="two updates of three micro-batches, clipped",
        ),
        Probe(
            np.array([0.5, -1.0, 0.3]), 0.2,
            [[_micro(1221, 1, 3), _micro(1223, 5, 3)],
             [_micro(1225, 3, 3), _micro(1227, 2, 3), _micro(1229, 1, 3)]], 0.2, 0.9,
            about="two updates of five micro-batches, three inputs",
        ),
    ),
    assemble=_update,
    planted=("not_reset", "mean_of_means", "clipped_apart"),
    mistakes=(
        Mistake(
            "not_reset",
            "The gradient of one update is added to what the update before left.",
            "What should the gradient be when a new update begins?",
            settings={"reset": "once"},
        ),
        Mistake(
            "mean_of_means",
            "Each micro-batch counts the same, however many tokens it has.",
            "What would the gradient be if all tokens stood in one batch?",
            settings={"weight": "batches"},
        ),
        Mistake(
            "clipped_apart",
            "w and b are clipped each by its own norm; the direction of the step "
            "changes.",
            "By which one factor should both gradients be multiplied?",
            settings={"clip_by": "each"},
        ),
        Mistake(
            "not_clipped",
            "The step is not clipped. (A gradient that is clipped after the step was "
            "clipped for nothing.)",
            "Which comes first: clipping, or the step?",
            settings={"clip_by": "none"},
        ),
        Mistake(
            "clipped_by_value",
            "Each number is clipped by itself; the direction of the step changes.",
            "How long is the vector of all gradients joined?",
            settings={"clip_by": "value"},
        ),
        Mistake(
            "always_scaled",
            "Short gradients are made longer, up to clip; they should stay as they are.",
            "What should happen to a gradient that is shorter than clip?",
            settings={"clip_by": "always"},
        ),
        Mistake(
            "clipped_each_micro_batch",
            "The gradient of each micro-batch is clipped before they are added; it is the "
            "gradient of the update that should be.",
            "How long may the gradient of the whole update be?",
            settings={"clip_by": "micro"},
        ),
        Mistake(
            "norm_of_w",
            "The norm is that of w's gradient alone; b belongs to it.",
            "How long is the vector of all gradients joined?",
            settings={"clip_by": "norm_of_w"},
        ),
        Mistake(
            "only_w_clipped",
            "Only w's gradient is clipped.",
            "By which one factor should both gradients be multiplied?",
            settings={"clip_by": "w_only"},
        ),
        Mistake(
            "norm_not_rooted",
            "clip is divided by the square of the norm.",
            "How long is the vector (3, 4)?",
            settings={"clip_by": "square"},
        ),
        Mistake(
            "not_averaged",
            "The gradients of the tokens are added up and not divided by their number.",
            "What should a step be when every token is there twice?",
            settings={"weight": "sum"},
        ),
        Mistake(
            "means_added",
            "The means of the micro-batches are added up: more micro-batches, longer "
            "steps.",
            "What would the gradient be if all tokens stood in one batch?",
            settings={"weight": "means_added"},
        ),
        Mistake(
            "divided_by_the_last",
            "The sum is divided by the tokens of the last micro-batch alone.",
            "How many tokens does the whole update have?",
            settings={"weight": "last"},
        ),
        Mistake(
            "only_the_last",
            "The gradient is set to zero in every micro-batch, so that only the last one "
            "is left.",
            "When does an update begin?",
            settings={"reset": "inside"},
        ),
        Mistake(
            "step_per_micro_batch",
            "There is a step after every micro-batch; an update is one step.",
            "How many steps should one update of two micro-batches take?",
            settings={"step": "micro"},
        ),
        Mistake(
            "uphill",
            "The step goes up the gradient.",
            "Should the loss rise or fall?",
            settings={"sign": "up"},
        ),
    ),
)  # fmt: skip
