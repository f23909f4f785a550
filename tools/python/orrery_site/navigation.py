"""The list of all pages beside each page, made once: the theme makes it anew for every page, which is most of its time.

The list is flat (source.sidebar), so pages differ only in how links lead from them and in which entry is their own.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Callable

ENTRY = re.compile(r'<li class="toctree-l1"><a class="reference internal" href="([^"]*)">')
GROUP = re.compile(r"<ul>\n(?:<li.*\n)*?<li class=\"toctree-l1 current.*\n")
START = "index"  # the page whose list is the pattern of all others


def list_for(pattern: str, target: str, link: Callable[[str], str]) -> str:
    """The list beside a page. `pattern`: that of the start page; `target`: the page's own address from there; `link`: an
    address as this page gives it."""
    def entry(found: re.Match[str]) -> str:
        if found[1] == target:
            return '<li class="toctree-l1 current current-page"><a class="current reference internal" href="#">'
        return f'<li class="toctree-l1"><a class="reference internal" href="{link(found[1])}">'

    made = ENTRY.sub(entry, pattern)
    return GROUP.sub(lambda found: found[0].replace("<ul>", '<ul class="current">', 1), made, count=1)


@functools.cache
def pattern_of(builder: Any) -> str:
    """The list beside the start page, as the theme makes it."""
    from furo.navigation import get_navigation_tree  # the theme is there where sphinx runs with it
    made = get_navigation_tree(builder._get_local_toctree(START, collapse=False, titles_only=True, maxdepth=-1, includehidden=True))
    if "toctree-l2" in made or not ENTRY.search(made):
        raise ValueError("the theme writes the list of pages in another way than navigation.py reads it")
    return made


def before_theme(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Keeps the theme from making the list."""
    context["toctree"] = lambda **_: ""


def after_theme(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    from sphinx.util.osutil import relative_uri
    own = app.builder.get_target_uri(page)
    context["furo_navigation_tree"] = list_for(pattern_of(app.builder), own, lambda target: relative_uri(own, target))


def setup(app: Any) -> dict[str, bool]:
    app.connect("html-page-context", before_theme, priority=400)
    app.connect("html-page-context", after_theme, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
