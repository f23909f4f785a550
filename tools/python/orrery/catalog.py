"""Everything that has a name: policies, parts, models, trace formats, environments."""

from __future__ import annotations

import functools
import html
import typing

from orrery import _orrery
from orrery.errors import ConfigError
from orrery.keywords import answered


class Component(typing.NamedTuple):
    """A named thing and its parameters (`fields`); prints like `orrery describe`."""

    kind: str
    name: str
    doc: str
    fields: tuple

    def __str__(self) -> str:
        lines = [f"{self.name} ({self.kind}): {self.doc}"]
        for field in self.fields:
            lines += _field_lines(field, "  ")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><td><code>{html.escape(f['name'])}</code></td><td>{html.escape(_facts(f))}</td>"
            f"<td style='text-align:left'>{html.escape(f['doc'])}</td></tr>"
            for f in self.fields
        )
        return f"<b>{html.escape(self.name)}</b> ({self.kind}): {html.escape(self.doc)}<table>{cells}</table>"


def _facts(field: dict) -> str:
    facts = field["type"] + (f" in {field['unit']}" if field["unit"] else "")
    if field.get("choices"):
        facts = "one of " + ", ".join(field["choices"])
    if field["range"] != "any value" and field["type"] in ("integer", "number"):
        facts += ", " + field["range"]
    return facts + (f", default {field['default']}" if field["default"] is not None else "")


def _field_lines(field: dict, indent: str):
    yield f"{indent}{field['name']}: {_facts(field)}"
    yield f"{indent}    {field['doc']}"
    for inner in field.get("fields", ()):
        yield from _field_lines(inner, indent + "  ")


@functools.lru_cache(maxsize=1)
def _components() -> tuple[Component, ...]:
    return tuple(Component(c["kind"], c["name"], c["doc"], tuple(c["fields"])) for c in _orrery.components())


def forget() -> None:
    """Forgets the names read so far, because a plugin may have added some."""
    _components.cache_clear()


@answered
def components(kind: str | None = None) -> list[Component]:
    """A list of all named things, or of those of one kind. Raises ConfigError if the kind does not exist."""
    everything = _components()
    kinds = sorted({c.kind for c in everything})
    if kind is not None and kind not in kinds:
        raise ConfigError([("list", "", f"unknown kind '{kind}'", _orrery.name_hint(kind, kinds))])
    return [c for c in everything if kind in (None, c.kind)]


@answered
def list_names(kind: str | None = None) -> list[str]:
    """The sorted names of one kind or, without `kind`, the kinds. Raises ConfigError if the kind does not exist."""
    if kind is None:
        return sorted({c.kind for c in _components()})
    return sorted(c.name for c in components(kind))


@answered
def describe(name: str, kind: str | None = None) -> Component:
    """The thing of that name (the first, if several kinds have one). Raises ConfigError if there is none."""
    bare = name.removeprefix("catalog:")
    for component in components(kind):
        if component.name == bare:
            return component
    known = [c.name for c in components(kind)]
    hint = _orrery.name_hint(bare, known)
    if not hint.startswith("did you mean"):
        hint = "orrery.list() shows the kinds, orrery.list(kind) their names"
    raise ConfigError([("describe", "", f"nothing is called '{bare}'", hint)])
