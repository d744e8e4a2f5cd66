"""Exercises of chapter 4: positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from transformer_lib.exercises.attention import X_TOKENS
from transformer_lib.exercises.engine import (
    Beyond,
    Exercise,
    Function,
    Mistake,
    Probe,
    Variant,
    numbers,
)
from transformer_lib.exercises.pencil import Blank, Pencil, Slip
from transformer_lib.reference.attention import attention
from transformer_lib.reference.lookup import softmax
from transformer_lib.reference.positions import (
    learned_positions_backward,
    rope,
    rope_halved,
    sinusoidal_shift,
)

EXERCISES = (
    "pencil_positions",
    "sinusoids_at",
    "look_alike",
    "shift_matrix",
    "repaired_rotary_attention",
    "position_table_backward",
)

QUARTER = np.pi / 2


# pencil_positions: a clock that makes a quarter turn per place


def _turned(start: int, per_place: float = QUARTER, still: bool = False) -> np.ndarray:
    """The three tokens, turned by their places."""
    places = np.full(3, 1.0) if still else start + np.arange(3.0)
    cos, sin = np.cos(places * per_place), np.sin(places * per_place)
    x, y = X_TOKENS.T
    return np.stack([x * cos - y * sin, x * sin + y * cos], axis=1).round(9) + 0.0


def _quarter_sheet(
    clock: str = "right",
    direction: float = 1.0,
    first: int = 0,
    still: bool = False,
    scored: str = "turned",
    added: str = "sum",
) -> dict[str, np.ndarray]:
    """All blanks, with the faults that are asked for."""
    angles = (first + np.arange(3.0)) * QUARTER
    if clock == "degrees":
        angles = np.radians(first + np.arange(3.0))
    if clock == "half":
        angles = angles / 2.0
    P = np.stack([np.sin(angles), np.cos(angles)], axis=1).round(9) + 0.0
    if clock == "cos_first":
        P = P[:, ::-1]
    turned = _turned(first, direction * QUARTER, still)
    moved = _turned(3 + first, direction * QUARTER, still)
    asks, answers = {
        "turned": (turned, turned),
        "raw": (X_TOKENS, X_TOKENS),
        "query_only": (turned, X_TOKENS),
        "keys_only": (X_TOKENS, turned),
        "sums": (X_TOKENS + P, X_TOKENS + P),
    }[scored]
    total = {"sum": X_TOKENS + P, "product": X_TOKENS * P, "tokens": X_TOKENS}[added]
    scores = answers @ asks[2]
    return {
        "positions": P,
        "sums": total,
        "turned": turned,
        "scores": scores,
        "moved": moved,
        "moved scores": moved @ moved[2],
    }


_SHEET = _quarter_sheet()
_MOVED_BY_ONE = {"moved": _turned(1)}
_MOVED_BY_TWO = {"moved": _turned(2)}

PENCIL_POSITIONS = Pencil(
    name="pencil_positions",
    statement="A clock makes a quarter turn per place. Give the positions (sine, cosine) "
    "of the places 0, 1, 2; the sums of tokens and positions; the tokens turned by their "
    "places; the scores of sat with all three; and the last two again for a text in which "
    "the three tokens stand at the places 3, 4, 5.",
    blanks=(
        Blank(
            "positions",
            _SHEET["positions"],
            "What are sine and cosine of 0, of a quarter turn and of half a turn?",
        ),
        Blank(
            "sums",
            _SHEET["sums"],
            "Which row of X stands at place 1, and what is added to it?",
        ),
        Blank(
            "turned",
            _SHEET["turned"],
            "A quarter turn takes (x, y) to (-y, x). How many quarter turns does place 2 "
            "make?",
        ),
        Blank(
            "scores",
            _SHEET["scores"],
            "What is the dot product of the turned sat with each of the turned tokens?",
        ),
        Blank(
            "moved",
            _SHEET["moved"],
            "How many quarter turns belong to place 3, and how many to place 4?",
        ),
        Blank(
            "moved scores",
            _SHEET["moved scores"],
            "What is the dot product of the moved sat with each of the moved tokens?",
        ),
    ),
    mistakes=(
        Slip(
            "cosine_first",
            "Sine and cosine have changed places.",
            "Which of the two is 0 at place 0?",
            _quarter_sheet(clock="cos_first"),
        ),
        Slip(
            "from_one",
            "The places were counted from 1; the first token stands at place 0.",
            "What is the sine of no turn at all?",
            _quarter_sheet(first=1),
        ),
        Slip(
            "eighths",
            "The clock was turned by an eighth of a turn per place.",
            "After how many places is a quarter turn per place back where it began?",
            _quarter_sheet(clock="half"),
        ),
        Slip(
            "degrees",
            "The angle of place t was taken as t degrees.",
            "How many degrees has a quarter turn?",
            _quarter_sheet(clock="degrees"),
        ),
        Slip(
            "multiplied",
            "Tokens and positions were multiplied instead of added.",
            "What is left of a token where its position is 0?",
            {"sums": _quarter_sheet(added="product")["sums"]},
        ),
        Slip(
            "nothing_added",
            "These are the tokens; the positions are still to be added.",
            "Which row of positions belongs to sat?",
            {"sums": _quarter_sheet(added="tokens")["sums"]},
        ),
        Slip(
            "clockwise",
            "The tokens were turned the other way, clockwise.",
            "A quarter turn takes (1, 0) to (0, 1). Where did you take it?",
            {
                k: _quarter_sheet(direction=-1.0)[k]
                for k in ("turned", "scores", "moved", "moved scores")
            },
        ),
        Slip(
            "one_turn_each",
            "Every token was turned by one quarter, wherever it stands.",
            "Which place has the first token, and how many quarter turns does it make?",
            {"turned": _turned(0, still=True)},
        ),
        Slip(
            "turned_from_one",
            "The first token was turned already; it stands at place 0.",
            "How many quarter turns does place 0 make?",
            {"turned": _turned(1)},
        ),
        Slip(
            "sums_turned",
            "The positions were added before turning. RoPE turns the tokens as they are.",
            "Which rows are turned: those of X, or those of the sums?",
            {"turned": np.array([[1.0, 1.0], [-2.0, 1.0], [-2.0, 0.0]])},
        ),
        Slip(
            "scores_unturned",
            "The tokens were multiplied as they stand in X, before turning.",
            "Which rows meet in a score: those of X, or the turned ones?",
            {"scores": _quarter_sheet(scored="raw")["scores"]},
        ),
        Slip(
            "keys_unturned",
            "Only sat, which asks, was turned; those that answer have to be turned too.",
            "What would the score of sat with itself be, and does a turn change a length?",
            {"scores": _quarter_sheet(scored="query_only")["scores"]},
        ),
        Slip(
            "query_unturned",
            "Only those that answer were turned; sat, which asks, has to be turned too.",
            "What would the score of sat with itself be, and does a turn change a length?",
            {"scores": _quarter_sheet(scored="keys_only")["scores"]},
        ),
        Slip(
            "scores_of_sums",
            "The sums were multiplied instead of the turned tokens.",
            "Which rows has RoPE made?",
            {"scores": _quarter_sheet(scored="sums")["scores"]},
        ),
        Slip(
            "moved_by_one",
            "The tokens were moved to the places 1, 2, 3.",
            "Where does the first token stand now?",
            _MOVED_BY_ONE,
        ),
        Slip(
            "moved_by_two",
            "The tokens were moved to the places 2, 3, 4.",
            "Where does the first token stand now?",
            _MOVED_BY_TWO,
        ),
        Slip(
            "only_moved",
            "All three were turned by three quarters; the second and third stand further "
            "on.",
            "How many quarter turns belong to place 4?",
            {"moved": np.array([[0.0, -1.0], [2.0, 0.0], [1.0, -2.0]])},
        ),
    ),
)


# sinusoids_at


def _sinusoids(
    exponent: str = "right",
    places: str = "given",
    waves: str = "sin_cos",
    unit: str = "radians",
    direction: str = "divide",
    layout: str = "rows",
) -> Function:
    """Sinusoids with the faults that are asked for."""

    def sinusoids_at(t: Any, d_model: int) -> Any:
        t = np.asarray(t, dtype=float)
        if places == "counted":
            t = np.arange(len(t), dtype=float)
        elif places == "from_one":
            t = t + 1.0
        columns = np.arange(d_model)
        pair = columns // 2
        by_column = {
            "right": 2.0 * pair,
            "pair": 1.0 * pair,
            "doubled": 4.0 * pair,
            "own_column": 1.0 * columns,
            "none": 0.0 * pair,
            "from_one": 2.0 * (pair + 1),
            "to_the_end": 2.0 * pair * d_model / max(d_model - 2, 1),
        }[exponent]
        rate = 10000.0 ** (by_column / d_model)
        angles = t[:, None] * rate if direction == "multiply" else t[:, None] / rate
        if unit == "degrees":
            angles = np.radians(angles)
        even = columns % 2 == 0
        if waves == "cos_sin":
            even = ~even
        elif waves == "sines":
            even = np.ones(d_model, dtype=bool)
        table = np.where(even, np.sin(angles), np.cos(angles))
        if layout == "halves":
            table = np.concatenate([table[:, 0::2], table[:, 1::2]], axis=1)
        return table.T if layout == "columns" else table

    return sinusoids_at


SINUSOIDS_AT = Exercise(
    name="sinusoids_at",
    arguments=("places", "d_model"),
    statement="Return the sinusoidal positions of the given places, one row per place, "
    "sine and cosine of one frequency side by side. d_model is even.",
    ask="Write down the row of place 1 for d_model = 4. Which of its four numbers is "
    "the first that is not what you expect?",
    reference=_sinusoids(),
    probes=(
        Probe(np.array([0]), 4, about="place 0, where every sine is 0"),
        Probe(np.array([1]), 2, about="width 2, a single pair"),
        Probe(np.array([0, 1, 2]), 4, about="three places of width 4"),
        Probe(np.array([7, 3]), 4, about="places that do not begin at 0"),
        Probe(np.array([2.5, 100.0, 1.0]), 6, about="places that are not whole"),
        Probe(np.array([40, 50, 60, 70, 90]), 8, about="five places of width 8"),
    ),
    beyond=(
        Beyond(
            Probe(np.array([0, 1, 5]), 5),
            "It works for even widths. With an odd one there is a sine more than there "
            "are cosines, and the last column has no partner.",
        ),
    ),
    variants=(
        Variant(
            "halves",
            "all sines stand before all cosines, as in some libraries. The columns are "
            "the same in another order, and a trained model cannot tell.",
            _sinusoids(layout="halves"),
        ),
    ),
    assemble=_sinusoids,
    mistakes=(
        Mistake(
            "exponent_halved",
            "The exponent is i/d with i the number of the pair; the formula has 2i/d.",
            "What is the exponent of the last pair, nearly 1 or nearly 1/2?",
            settings={"exponent": "pair"},
        ),
        Mistake(
            "exponent_doubled",
            "The exponent is doubled: a step of 2 through the columns and a factor of 2 "
            "as well.",
            "What is the exponent of the last pair, below 1 or nearly 2?",
            settings={"exponent": "doubled"},
        ),
        Mistake(
            "own_column",
            "Each column has a frequency of its own; sine and cosine of a pair share one.",
            "Which frequency has column 1, and which has column 0?",
            settings={"exponent": "own_column"},
        ),
        Mistake(
            "exponent_from_one",
            "The pairs are counted from 1; the first has exponent 0.",
            "How fast does the first pair turn, in radians per place?",
            settings={"exponent": "from_one"},
        ),
        Mistake(
            "one_frequency",
            "All columns have the same frequency.",
            "After how many places does a clock with one hand show the same again?",
            settings={"exponent": "none"},
        ),
        Mistake(
            "last_exponent_one",
            "The exponents are spread from 0 to 1; in the formula the last is (d - 2)/d.",
            "What is 2i/d for the last pair?",
            settings={"exponent": "to_the_end"},
        ),
        Mistake(
            "places_counted",
            "The rows are counted, 0, 1, 2, and the given places are not used.",
            "Which place does the first row belong to?",
            settings={"places": "counted"},
        ),
        Mistake(
            "places_from_one",
            "1 is added to every place.",
            "What is the sine at place 0?",
            settings={"places": "from_one"},
        ),
        Mistake(
            "cosine_first",
            "Sine and cosine are exchanged.",
            "Which of the two is 0 at place 0?",
            settings={"waves": "cos_sin"},
        ),
        Mistake(
            "only_sines",
            "Every column is a sine.",
            "Which column tells a rising sine from a falling one?",
            settings={"waves": "sines"},
        ),
        Mistake(
            "degrees",
            "The angles are taken as degrees.",
            "What is the sine of 1 radian?",
            settings={"unit": "degrees"},
        ),
        Mistake(
            "multiplied",
            "The place is multiplied by 10000^(2i/d) instead of divided by it.",
            "Should the last pair turn faster than the first, or slower?",
            settings={"direction": "multiply"},
        ),
        Mistake(
            "transposed",
            "The table is transposed: one column per place instead of one row.",
            "Which shape has an array of tokens, and what is added to it?",
            settings={"layout": "columns"},
        ),
    ),
)


# look_alike


def _look_alike(
    by: str = "distance", find: str = "nearest", unit: str = "radians"
) -> Function:
    def look_alike(angle: float, length: int) -> Any:
        if unit == "degrees":
            angle = np.radians(angle)
        turns = np.arange(length) * angle
        gap = {
            "distance": 2.0 - 2.0 * np.cos(turns),
            "sine": np.abs(np.sin(turns)),
            "signed_sine": np.sin(turns),
            "rest": np.mod(turns, 2.0 * np.pi),
        }[by]
        if find == "with_itself":
            return int(gap.argmin())
        if find == "farthest":
            return int(gap[1:].argmax()) + 1
        place = int(gap[1:].argmin())
        if find == "one_before":
            return place
        if find == "gap":
            return float(np.sqrt(np.abs(gap[1:].min())))
        return place + 1

    return look_alike


LOOK_ALIKE = Exercise(
    name="look_alike",
    arguments=("angle", "length"),
    statement="A single clock turns by angle radians per place. Return the place, from 1 "
    "to length - 1, whose position (sine, cosine) is closest to that of place 0.",
    ask="Where is the hand at the place that you return, and where is it one place "
    "before?",
    reference=_look_alike(),
    probes=(
        Probe(np.pi / 2, 7, about="quarter turns, which are back at place 4"),
        Probe(np.pi, 3, about="half turns"),
        Probe(2.0, 4, about="four places, less than one turn"),
        Probe(1.0, 12, about="1 radian and 12 places"),
        Probe(6.0, 9, about="nearly a full turn per place"),
        Probe(0.9, 30, about="0.9 radians and 30 places"),
        Probe(1.0, 300, about="1 radian and 300 places"),
    ),
    assemble=_look_alike,
    mistakes=(
        Mistake(
            "itself",
            "Place 0 is among the candidates, and nothing is closer to it than itself.",
            "At which place does your search begin?",
            settings={"find": "with_itself"},
        ),
        Mistake(
            "off_by_one",
            "The place is one too small: the search begins at place 1, and argmin counts "
            "from 0.",
            "Which place is the first that argmin sees?",
            settings={"find": "one_before"},
        ),
        Mistake(
            "farthest",
            "That is the place farthest away.",
            "Should the distance be small or large?",
            settings={"find": "farthest"},
        ),
        Mistake(
            "distance_returned",
            "The distance is returned instead of the place.",
            "What does argmin give, and what does min give?",
            settings={"find": "gap"},
        ),
        Mistake(
            "sine_only",
            "Only the sines are compared. Half a turn has the same sine as none.",
            "Where is the hand when the sine is 0 and the cosine is -1?",
            settings={"by": "sine"},
        ),
        Mistake(
            "sine_with_sign",
            "The smallest sine is looked for, sign included: that is near -1, not near 0.",
            "Which sine has place 0?",
            settings={"by": "signed_sine"},
        ),
        Mistake(
            "one_sided",
            "Only hands that are a little past a full turn count; those a little short of "
            "one are as close.",
            "How far apart are 1 degree and 359 degrees?",
            settings={"by": "rest"},
        ),
        Mistake(
            "degrees",
            "The angle is taken as degrees.",
            "How many radians has a full turn?",
            settings={"unit": "degrees"},
        ),
    ),
)


# shift_matrix


def _shift(
    signs: str = "right",
    amount: str = "offset",
    exponent: str = "right",
    blocks: str = "pairs",
    unit: str = "radians",
) -> Function:
    """The matrix of a shift with the faults that are asked for."""

    def shift_matrix(offset: int, d_model: int) -> Any:
        pair = np.arange(d_model // 2)
        by_pair = {
            "right": 2.0 * pair, "pair": 1.0 * pair, "none": 0.0 * pair, "doubled": 4.0 * pair,
        }[exponent]  # fmt: skip
        k = {"offset": offset, "one": 1, "squared": offset**2}[amount]
        angles = k / 10000.0 ** (by_pair / d_model)
        if unit == "degrees":
            angles = np.radians(angles)
        R = np.zeros((d_model, d_model))
        for i, angle in enumerate(angles):
            cos, sin = np.cos(angle), np.sin(angle)
            block = {
                "right": [[cos, -sin], [sin, cos]],
                "back": [[cos, sin], [-sin, cos]],
                "mirror": [[cos, sin], [sin, -cos]],
                "exchanged": [[sin, -cos], [cos, sin]],
                "no_minus": [[cos, sin], [sin, cos]],
                "diagonal": [[cos, 0.0], [0.0, cos]],
            }[signs]
            j = d_model // 2 + i if blocks == "halves" else 2 * i + 1
            at = [i if blocks == "halves" else 2 * i, j]
            R[np.ix_(at, at)] = block
        return R

    return shift_matrix


SHIFT_MATRIX = Exercise(
    name="shift_matrix",
    arguments=("offset", "d_model"),
    statement="Return the matrix R of shape (d_model, d_model) for which p_(t + offset) = "
    "p_t R at every place t. Positions are rows, sine and cosine side by side; d_model "
    "is even.",
    ask="With d_model = 2, what is (0, 1) times your matrix, and what are sine and cosine "
    "of the offset?",
    reference=lambda offset, d_model: sinusoidal_shift(offset, d_model),
    probes=(
        Probe(0, 4, about="an offset of 0, which moves nothing"),
        Probe(1, 2, about="an offset of 1 at width 2"),
        Probe(-2, 2, about="an offset to the left"),
        Probe(3, 2, about="an offset of 3 at width 2"),
        Probe(1, 4, about="an offset of 1 at width 4"),
        Probe(5, 6, about="an offset of 5 at width 6"),
        Probe(-7, 8, about="an offset of -7 at width 8"),
    ),
    variants=(
        Variant(
            "halves",
            "it moves positions whose sines all stand before the cosines.",
            _shift(blocks="halves"),
        ),
    ),
    assemble=_shift,
    mistakes=(
        Mistake(
            "turned_back",
            "It turns the other way: p_t R is the position offset places earlier. "
            "For columns, R p, it would be right.",
            "Is (sin t, cos t) times your matrix the sine of a sum or of a difference?",
            settings={"signs": "back"},
        ),
        Mistake(
            "mirrored",
            "Each block is a mirror instead of a rotation.",
            "What should the matrix be at an offset of 0?",
            settings={"signs": "mirror"},
        ),
        Mistake(
            "exchanged",
            "Sine and cosine are exchanged in the blocks.",
            "What should the matrix be at an offset of 0?",
            settings={"signs": "exchanged"},
        ),
        Mistake(
            "no_minus",
            "The minus sign is missing: sin(a + b) has only plus signs, cos(a + b) does "
            "not.",
            "What is cos(a + b)?",
            settings={"signs": "no_minus"},
        ),
        Mistake(
            "diagonal",
            "Only the diagonal is filled; sine and cosine have to be mixed.",
            "What is sin(a + b), written with sines and cosines of a and of b?",
            settings={"signs": "diagonal"},
        ),
        Mistake(
            "offset_unused",
            "The matrix moves by one place, whatever the offset.",
            "By which angle does the first pair turn over three places?",
            settings={"amount": "one"},
        ),
        Mistake(
            "one_frequency",
            "All pairs turn by the same angle.",
            "How fast does the last pair turn, compared with the first?",
            settings={"exponent": "none"},
        ),
        Mistake(
            "exponent_halved",
            "The exponent is i/d with i the number of the pair; the formula has 2i/d.",
            "Which exponent has the pair in the columns 2 and 3 of width 4?",
            settings={"exponent": "pair"},
        ),
        Mistake(
            "exponent_doubled",
            "The exponent is doubled: 4i/d for pair number i.",
            "Which exponent has the pair in the columns 2 and 3 of width 4?",
            settings={"exponent": "doubled"},
        ),
        Mistake(
            "degrees",
            "The angles are taken as degrees.",
            "By how many radians does the first pair turn per place?",
            settings={"unit": "degrees"},
        ),
    ),
)  # fmt: skip


# repaired_rotary_attention


def _rotary(
    keys: str = "turned",
    queries: str = "turned",
    values: str = "still",
    exponent: str = "right",
    scale: str = "root",
    pairing: str = "neighbours",
    axis: str = "keys",
) -> Function:
    """Attention with RoPE, with the faults that are asked for."""

    def rotary_attention(Q: Any, K: Any, V: Any) -> Any:
        def turn(X: Any, sign: float = 1.0, start: float = 0.0) -> Any:
            n, d = X.shape[-2:]
            pair = np.arange(d // 2)
            by_pair = {"right": 2.0 * pair, "pair": 1.0 * pair, "none": 0.0 * pair}
            rate = 10000.0 ** (by_pair[exponent] / d)
            angles = sign * (start + np.arange(n))[:, None] / rate
            cos, sin = np.cos(angles), np.sin(angles)
            even, odd = (
                (X[..., : d // 2], X[..., d // 2 :])
                if pairing == "halves"
                else (X[..., 0::2], X[..., 1::2])
            )
            turned = even * cos - odd * sin, even * sin + odd * cos
            if pairing == "halves":
                return np.concatenate(turned, axis=-1)
            return np.stack(turned, axis=-1).reshape(X.shape)

        q = turn(Q) if queries == "turned" else Q
        k = {
            "turned": lambda: turn(K),
            "backwards": lambda: turn(K, -1.0),
            "raw": lambda: K,
            "late": lambda: turn(K, start=1.0),
        }[keys]()
        v = turn(V) if values == "turned" else V
        d = K.shape[-1]
        divisor = {
            "root": np.sqrt(d), "none": 1.0, "width": float(d), "pairs": np.sqrt(d / 2.0),
        }[scale]  # fmt: skip
        A = softmax(q @ k.swapaxes(-1, -2) / divisor, axis=-1 if axis == "keys" else -2)
        return A @ v

    return rotary_attention


REPAIRED_ROTARY_ATTENTION = Exercise(
    name="repaired_rotary_attention",
    arguments=("Q", "K", "V"),
    statement="Repair the function so that it returns the output of attention with RoPE: "
    "queries and keys are turned by their places, then scores, softmax and average as "
    "always. Neighbouring columns make a pair.",
    ask="Put 0 into all queries but one, and compare the scores before and after all "
    "tokens are moved by one place. What should stay?",
    reference=lambda Q, K, V: attention(rope(Q), rope(K), V)[0],
    probes=(
        Probe(
            np.zeros((2, 4)), numbers(201, 2, 4), np.array([[1.0, 0.0], [3.0, 0.0]]),
            about="queries of zero, which fit all keys alike",
        ),
        Probe(
            np.array([[1.0, 0.0]]), np.array([[2.0, 1.0]]), np.array([[5.0, 7.0]]),
            about="a single token, which is not turned",
        ),
        Probe(
            np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 0.0]]),
            np.array([[2.0, 0.0], [2.0, 0.0], [2.0, 0.0]]),
            np.array([[1.0, 0.0], [0.0, 1.0], [4.0, 4.0]]), about="width 2, equal keys",
        ),
        Probe(X_TOKENS, X_TOKENS, X_TOKENS, about="the three tokens of the chapter"),
        Probe(
            numbers(202, 3, 4), numbers(203, 3, 4), numbers(204, 3, 4),
            about="3 tokens of width 4",
        ),
        Probe(
            2 * numbers(205, 5, 6), 2 * numbers(206, 5, 6), numbers(207, 5, 2),
            about="5 tokens, d_k = 6, d_v = 2",
        ),
        Probe(
            numbers(208, 7, 8), numbers(209, 7, 8), numbers(210, 7, 4),
            about="7 tokens, d_k = 8, d_v = 4",
        ),
    ),
    beyond=(
        Beyond(
            Probe(numbers(211, 2, 3, 4), numbers(212, 2, 3, 4), numbers(213, 2, 3, 2)),
            "It works for one sequence. With a batch in front, places run along the last "
            "axis but one: X.shape[-2].",
        ),
    ),
    variants=(
        Variant(
            "halves",
            "column i is paired with column i + d/2, as in GPT-NeoX and Llama. The law of "
            "distances holds as well; weights trained with one pairing do not serve the "
            "other.",
            lambda Q, K, V: attention(rope_halved(Q), rope_halved(K), V)[0],
        ),
    ),
    assemble=_rotary,
    planted=("keys_backwards", "values_turned", "exponent_halved"),
    mistakes=(
        Mistake(
            "keys_backwards",
            "The keys are turned the other way, so the scores depend on the sum of the "
            "two places.",
            "Both q and k move on by one place. By which angle does each turn, and what "
            "becomes of the angle between them?",
            settings={"keys": "backwards"},
        ),
        Mistake(
            "keys_raw",
            "Only the queries are turned, so the scores depend on the place that asks.",
            "What happens to the scores when all tokens move on by one place?",
            settings={"keys": "raw"},
        ),
        Mistake(
            "queries_raw",
            "Only the keys are turned, so the scores depend on the place that answers.",
            "What happens to the scores when all tokens move on by one place?",
            settings={"queries": "raw"},
        ),
        Mistake(
            "keys_late",
            "The keys are turned by one place more than the queries.",
            "By how much is a token turned against itself?",
            settings={"keys": "late"},
        ),
        Mistake(
            "values_turned",
            "The values are turned as well. What a token hands over should not depend on "
            "where it stands.",
            "If all weights are equal, what should the output be?",
            settings={"values": "turned"},
        ),
        Mistake(
            "exponent_halved",
            "The exponent of the frequencies is i/d with i the number of the pair; the "
            "formula has 2i/d.",
            "How fast does the second pair of width 4 turn?",
            settings={"exponent": "pair"},
        ),
        Mistake(
            "one_frequency",
            "All pairs turn by the same angle.",
            "How fast does the last pair turn, compared with the first?",
            settings={"exponent": "none"},
        ),
        Mistake(
            "no_scaling",
            "The scores are not divided by the root of d_k.",
            "What did chapter 3 divide the scores by?",
            settings={"scale": "none"},
        ),
        Mistake(
            "scaled_by_width",
            "The scores are divided by d_k instead of by its root.",
            "What did chapter 3 divide the scores by?",
            settings={"scale": "width"},
        ),
        Mistake(
            "scaled_by_pairs",
            "The scores are divided by the root of the number of pairs, d_k / 2.",
            "How many products does one score sum up?",
            settings={"scale": "pairs"},
        ),
        Mistake(
            "over_queries",
            "The softmax runs over the queries: each column of the weights sums to 1 "
            "instead of each row.",
            "Who shares out the weight 1: each query among the keys, or each key among "
            "the queries?",
            settings={"axis": "queries"},
        ),
    ),
)  # fmt: skip


# position_table_backward


def _table(batch: str = "sum", rows: str = "all", places: str = "right") -> Function:
    def position_table_backward(d_positions: Any, max_len: int) -> Any:
        _, length, d_model = d_positions.shape
        d = {
            "sum": lambda: d_positions.sum(axis=0),
            "mean": lambda: d_positions.mean(axis=0),
            "first": lambda: d_positions[0],
            "last": lambda: d_positions[-1],
        }[batch]()
        if places == "reversed":
            d = d[::-1]
        elif places == "averaged":
            d = d / length
        if rows == "seen":
            return d
        table = np.zeros((max_len, d_model))
        if rows == "at_the_end":
            table[max_len - length :] = d
        else:
            table[:length] = d
        if rows == "repeated" and max_len > length:
            table[length:] = d[-1]
        return table

    return position_table_backward


POSITION_TABLE_BACKWARD = Exercise(
    name="position_table_backward",
    arguments=("d_positions", "max_len"),
    statement="Return the gradient of the loss with respect to a learned table of max_len "
    "rows, from the gradient with respect to the rows that were added, of shape "
    "(batch, n, d_model).",
    ask="Which sentences of the batch have read row 0 of the table, and which have read "
    "the last row?",
    reference=learned_positions_backward,
    probes=(
        Probe(np.array([[[1.0, 2.0]]]), 1, about="one sentence, one place, one row"),
        Probe(np.array([[[1.0], [2.0]]]), 4, about="a table longer than the sentence"),
        Probe(np.array([[[1.0], [2.0]], [[10.0], [20.0]]]), 2, about="two sentences"),
        Probe(numbers(221, 3, 4, 2), 6, about="3 sentences, 4 places, 6 rows, width 2"),
        Probe(numbers(222, 2, 3, 3), 3, about="2 sentences, 3 places, 3 rows, width 3"),
    ),
    assemble=_table,
    mistakes=(
        Mistake(
            "averaged",
            "The sentences are averaged; each has read the row and adds its own part.",
            "If two sentences both read row 0, does it get half of each gradient?",
            settings={"batch": "mean"},
        ),
        Mistake(
            "first_sentence",
            "Only the first sentence counts.",
            "Which sentences have read row 0?",
            settings={"batch": "first"},
        ),
        Mistake(
            "last_sentence",
            "Only the last sentence counts: each one overwrites what came before.",
            "Should the parts be written over each other or added up?",
            settings={"batch": "last"},
        ),
        Mistake(
            "rows_missing",
            "The rows that no sentence has reached are missing.",
            "Which shape has the table?",
            settings={"rows": "seen"},
        ),
        Mistake(
            "at_the_end",
            "The gradient stands in the last rows of the table instead of the first.",
            "Which row did the first token read?",
            settings={"rows": "at_the_end"},
        ),
        Mistake(
            "last_repeated",
            "The rows that no sentence has reached get the gradient of the last place; "
            "they should get 0.",
            "Does the loss change when a row that nobody reads changes?",
            settings={"rows": "repeated"},
        ),
        Mistake(
            "divided_by_length",
            "The gradient is divided by the number of places.",
            "How many places share one row of the table?",
            settings={"places": "averaged"},
        ),
        Mistake(
            "reversed",
            "The places stand in reverse order.",
            "Which row did the first token read?",
            settings={"places": "reversed"},
        ),
    ),
)
