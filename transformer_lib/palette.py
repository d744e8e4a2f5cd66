"""The colours of the course: one meaning each, in figures and widgets alike.

Every text colour reaches at least 5:1 on its ground (WCAG contrast). The stylesheet
``widgets/shared.css`` repeats these values as CSS variables; a test compares the two.
"""

LIGHT = {
    "ground": "#ffffff",
    "ink": "#1b2230",
    "muted": "#566072",
    "line": "#d3dae4",
    "panel": "#f7f9fb",
    "query": "#0b62a8",
    "key": "#b4470b",
    "value": "#0a7a56",
    "output": "#8a3fa0",
    "weight": "#3d83bd",
    "negative": "#b4470b",
    "positive": "#0b62a8",
}
"""Colours on a white ground. Figures always use these."""

DARK = {
    "ground": "#121519",
    "ink": "#e8ecf2",
    "muted": "#a3adbb",
    "line": "#39424f",
    "panel": "#191e25",
    "query": "#6cb6f5",
    "key": "#f5a35c",
    "value": "#4fd1a5",
    "output": "#d79bea",
    "weight": "#4d97d3",
    "negative": "#f5a35c",
    "positive": "#6cb6f5",
}
"""The same meanings on the dark ground of the site. Widgets use both."""
