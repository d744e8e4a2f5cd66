"""What all widgets share: one ES module, a static first view, state that is checked.

A widget is an `anywidget <https://anywidget.dev>`_: a Python class with synchronised
traits and one JavaScript module of the same name. The module is ``shared.js`` followed
by ``<name>.js``, so that neither imports anything; the book's extension wraps the same
text for pages without a kernel. See ``book/_static/widget-host.js``.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar

import anywidget
import traitlets

__all__ = [
    "HINT",
    "MINUS",
    "Number",
    "NumberRow",
    "NumberTable",
    "OneOf",
    "Recorded",
    "StateError",
    "StateTrait",
    "Switch",
    "Text",
    "Texts",
    "Widget",
    "fixed",
    "recording",
    "short",
    "table",
]

FOLDER = Path(__file__).parent
MINUS = "\N{MINUS SIGN}"
HINT = (
    "On the course's page with scripts on, or after running this cell, the numbers can "
    "be changed."
)
Figure = float | int
"""What the annotations of this package call a number."""
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class StateError(traitlets.TraitError, ValueError):
    """A state that a widget cannot show; the message names what was wanted."""


def _read(file: str) -> str:
    return (FOLDER / file).read_text(encoding="utf-8")


def check_number(
    name: str, value: Any, low: Figure, high: Figure, whole: bool = False
) -> Figure:
    """Return ``value`` as a plain number, or say what was wanted.

    Parameters
    ----------
    name
        What the message calls the number.
    value
        Anything.
    low, high
        The allowed range, both ends included.
    whole
        Only integers are allowed, and an ``int`` is returned.

    Raises
    ------
    StateError
        A ``ValueError``: not a number, NaN, outside the range, or not whole.
    """
    kind = "a whole number" if whole else "a number"
    good = isinstance(value, Real) and not isinstance(value, bool)
    if good and whole and not isinstance(value, Integral):
        good = float(value).is_integer()
    if not good or not math.isfinite(value) or not low <= value <= high:
        raise StateError(f"{name}: got {value!r}, wanted {kind} from {low} to {high}")
    return int(value) if whole else float(value)


class StateTrait(traitlets.TraitType):
    """A piece of state that the front end shares.

    Parameters
    ----------
    default
        First value.
    constant
        The value is part of the widget's structure (names, options) and stays as it
        was at construction.
    """

    def __init__(self, default: Any, *, constant: bool = False) -> None:
        super().__init__(default_value=default)
        self.constant = constant
        self.tag(sync=True, state=True)

    def validate(self, obj: Any, value: Any) -> Any:
        """Check one value (called by traitlets on every assignment)."""
        checked = self.check(value)
        before = obj.start.get(self.name)
        if before is not None and checked != before:
            if self.constant:
                raise StateError(
                    f"{self.name}: got {value!r}, but it stays as it was made; "
                    f"make a new {type(obj).__name__}"
                )
            if isinstance(checked, list) and len(checked) != len(before):
                raise StateError(
                    f"{self.name}: got {len(checked)} entries, wanted {len(before)}, "
                    "as at the start"
                )
        return checked

    def check(self, value: Any) -> Any:
        """Return the value as plain data, or raise :class:`StateError`."""
        raise NotImplementedError


class Number(StateTrait):
    """A number within a range; NaN and infinities are refused."""

    def __init__(
        self,
        default: Figure,
        low: Figure,
        high: Figure,
        *,
        whole: bool = False,
        constant: bool = False,
    ) -> None:
        super().__init__(default, constant=constant)
        self.low, self.high, self.whole = low, high, whole

    def check(self, value: Any) -> Figure:
        """Return the number."""
        return check_number(str(self.name), value, self.low, self.high, self.whole)


class NumberRow(StateTrait):
    """A list of numbers, all within a range."""

    def __init__(
        self,
        default: Sequence[Figure],
        low: Figure,
        high: Figure,
        count: int | None = None,
    ) -> None:
        super().__init__(list(default))
        self.low, self.high, self.count = low, high, count

    def check(self, value: Any) -> list[Figure]:
        """Return the row as a list."""
        try:
            row = list(value)
        except TypeError:
            row = []
        if not row or (self.count is not None and len(row) != self.count):
            wanted = self.count if self.count else "one or more"
            raise StateError(f"{self.name}: got {value!r}, wanted {wanted} numbers")
        return [
            check_number(f"{self.name}[{i}]", number, self.low, self.high)
            for i, number in enumerate(row)
        ]


class NumberTable(StateTrait):
    """A list of rows of numbers, all within a range, every row ``columns`` wide."""

    def __init__(
        self,
        default: Sequence[Sequence[Figure]],
        low: Figure,
        high: Figure,
        columns: int,
        *,
        whole: bool = False,
        constant: bool = False,
        called: str = "",
    ) -> None:
        super().__init__([list(row) for row in default], constant=constant)
        self.low, self.high, self.columns, self.whole = low, high, columns, whole
        self.called = called

    def check(self, value: Any) -> list[list[Figure]]:
        """Return the table as a list of lists."""
        name = self.called or self.name
        try:
            rows = [list(row) for row in value]
        except TypeError:
            rows = []
        if not rows or any(len(row) != self.columns for row in rows):
            raise StateError(
                f"{name}: got {value!r}, wanted rows of {self.columns} numbers"
            )
        return [
            [
                check_number(
                    f"{name}[{i}][{j}]", number, self.low, self.high, self.whole
                )
                for j, number in enumerate(row)
            ]
            for i, row in enumerate(rows)
        ]


class Switch(StateTrait):
    """True or false."""

    def check(self, value: Any) -> bool:
        """Return the truth value."""
        if not isinstance(value, bool):
            raise StateError(f"{self.name}: got {value!r}, wanted True or False")
        return value


class OneOf(StateTrait):
    """One of a few values."""

    def __init__(self, default: Any, options: Iterable[Any]) -> None:
        super().__init__(default)
        self.options = tuple(options)

    def check(self, value: Any) -> Any:
        """Return the value."""
        if isinstance(value, bool) or value not in self.options:
            wanted = ", ".join(map(str, self.options))
            raise StateError(f"{self.name}: got {value!r}, wanted one of {wanted}")
        return self.options[self.options.index(value)]


@cache
def recording(name: str) -> dict[str, Any]:
    """Read ``data/<name>.json``: what the widget of that name plays."""
    read: dict[str, Any] = json.loads(_read(f"data/{name}.json"))
    return read


class Recorded(StateTrait):
    """What was recorded, or a part of it; it stays as it was written."""

    def __init__(self, recording: Any) -> None:
        super().__init__(type(recording)(), constant=True)
        self.recording = recording

    def check(self, value: Any) -> Any:
        """Return the recording; nothing else is shown."""
        if value != self.recording:
            raise StateError(f"{self.name}: got other numbers than those recorded")
        return value


class Text(StateTrait):
    """A text, which stays as it was at construction."""

    def __init__(self) -> None:
        super().__init__("", constant=True)

    def check(self, value: Any) -> str:
        """Return the text."""
        if not isinstance(value, str):
            raise StateError(f"{self.name}: got {value!r}, wanted a text")
        return value


class Texts(StateTrait):
    """A list of texts, none empty, which stays as it was at construction."""

    def __init__(self, default: Sequence[str] = ()) -> None:
        super().__init__(list(default), constant=True)

    def check(self, value: Any) -> list[str]:
        """Return the texts as a list."""
        texts = [] if isinstance(value, str) else list(value)
        if not texts or not all(isinstance(t, str) and t.strip() for t in texts):
            raise StateError(f"{self.name}: got {value!r}, wanted texts, none empty")
        return texts


def _round(value: Figure, exponent: int) -> Decimal:
    """Round to a multiple of ``10 ** exponent``; a tie goes up, as in JavaScript."""
    return Decimal(value).quantize(Decimal(1).scaleb(exponent), ROUND_HALF_UP)


def fixed(value: Figure, digits: int) -> str:
    """Write ``value`` with ``digits`` decimals, a real minus sign and no minus zero.

    Examples
    --------
    >>> fixed(-0.001, 2), fixed(0.125, 2), fixed(-1.5, 1) == MINUS + "1.5"
    ('0.00', '0.13', True)
    """
    rounded = _round(float(value), -digits)
    return f"{abs(rounded) if rounded == 0 else rounded:f}".replace("-", MINUS)


def short(value: Figure) -> str:
    """Write ``value`` with two significant digits, as a reader would on paper.

    Examples
    --------
    >>> short(0.8), short(0.0125), short(6.3e-7), short(1234.0)
    ('0.80', '0.013', '6.3·10⁻⁷', '1.2·10³')
    """
    if value == 0:
        return "0"
    exact = Decimal(float(value))
    rounded = _round(float(value), exact.adjusted() - 1)
    power = rounded.adjusted()
    if -4 <= power < 3:
        return fixed(float(rounded), max(0, 1 - power))
    digits = fixed(float(rounded.scaleb(-power)), 1)
    return f"{digits}·10{str(power).translate(SUPERSCRIPTS)}"


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    caption: str = "",
) -> str:
    """Write an HTML table; the first cell of each row is its name. Texts are escaped."""
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in columns)
    body = "\n".join(
        f'<tr><th scope="row">{html.escape(row[0])}</th>'
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    above = f"<caption>{html.escape(caption)}</caption>\n" if caption else ""
    return (
        f"<table>\n{above}<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody>\n</table>"
    )


class Widget(anywidget.AnyWidget):
    """Base of the course's widgets.

    A subclass gives ``name`` (its module ``<name>.js`` lies beside this file), the
    question that is its title, traits tagged ``state``, and a static first view.

    Attributes
    ----------
    name
        What the HTML calls the widget, ``data-widget="<name>"``.
    question
        The title.
    in_repr
        Names of the traits that ``repr`` shows, in this order.
    start
        The state at construction; the reset button brings it back.
    """

    name: ClassVar[str] = ""
    question: str = ""
    in_repr: ClassVar[tuple[str, ...]] = ()
    start = traitlets.Dict().tag(sync=True)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if "name" in cls.__dict__:  # not the class that add_traits makes per instance
            cls._esm = _read("shared.js") + "\n" + _read(f"{cls.name}.js")
            cls._css = _read("shared.css")
        super().__init_subclass__(**kwargs)

    def __init__(self, **state: Any) -> None:
        super().__init__(**state)
        self.start = self.current_state()

    def current_state(self) -> dict[str, Any]:
        """Everything that the widget shows, as plain data that JSON can hold."""
        return {name: getattr(self, name) for name in self.trait_names(state=True)}

    def static_view(self) -> str:
        """HTML that shows the current state without any script."""
        raise NotImplementedError(f"{type(self).__name__} gives no static view")

    def _repr_mimebundle_(
        self, **kwargs: Any
    ) -> tuple[dict[str, Any], dict[str, Any]] | None:
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        data = {**data, "text/plain": repr(self), "text/html": self.as_html()}
        return data, metadata

    def as_html(self) -> str:
        """Write the element that a page without a kernel brings to life.

        Returns
        -------
        html
            A ``div`` with the widget's name, its state as JSON, and inside it the
            static view; the same text for the same state, always.
        """
        state = json.dumps(
            self.current_state(), ensure_ascii=False, sort_keys=True, allow_nan=False
        )
        return (
            f'<div class="tl-widget" data-widget="{html.escape(self.name)}" '
            f'data-state="{html.escape(state)}">\n'
            f"<p><strong>{html.escape(self.question)}</strong></p>\n"
            f"{self.static_view()}\n"
            "</div>"
        )

    def __repr__(self) -> str:
        shown = self._shown_in_repr()
        inside = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        return f"{type(self).__name__}({inside})"

    def _shown_in_repr(self) -> Mapping[str, Any]:
        return {name: getattr(self, name) for name in self.in_repr}
