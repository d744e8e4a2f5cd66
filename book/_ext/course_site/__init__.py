"""All code that builds the site: one Sphinx extension in seven parts.

``settings``  addresses, version, commit and date, read from one place
``assets``    MathJax and fonts, from ``node_modules`` into the site
``widgets``   each widget a classic script, on the pages that use it
``api``       the library's pages, from its packages and docstrings
``exercises`` the page of exercises and the mistakes that they know
``theme``     cures of the theme's faults
``checks``    no stored traceback, no dead link between pages
"""

from __future__ import annotations

from sphinx.application import Sphinx

from course_site import api, assets, checks, exercises, settings, theme, widgets

__all__ = ["setup"]


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the parts."""
    for part in (settings, assets, widgets, api, exercises, theme, checks):
        part.setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
