"""Sections of configs and parameters of policies as TypedDicts, from the field tables."""

from __future__ import annotations

import json
import keyword
import re

HEAD = '''"""Sections of configs and parameters of policies as their declarations state them, for checkers and editors.

    config: orrery.params.ServingConfig = {"system": "serving", …}

Made by orrery_stubs; a quantity is a text with its unit, "80 GiB".
"""

from __future__ import annotations

from typing import Any, Literal, Mapping, Optional, Sequence, TypedDict, Union

Quantity = str
'''

# What a symbol of a unit has to be written with; the others (tokens, count …) are bare numbers.
DIMENSIONS = {"s", "B", "B/s", "FLOP/s", "W", "J", "Hz", "1/s"}
# Kinds whose names are listed, and whose parameters have no type of their own.
NAMED_ONLY = {"part", "model", "claim", "study", "trace_format", "section"}


def camel(*words: str) -> str:
    """batching, vllm_v1: BatchingVllmV1."""
    return "".join(part[:1].upper() + part[1:] for word in words for part in re.split(r"[^0-9A-Za-z]+", word) if part)


class Declarations:
    """All components as text; equal tables become one type."""

    def __init__(self, components: list[dict]):
        self.components = [c for c in components if c["kind"] not in NAMED_ONLY]
        self.names: dict[str, list[str]] = {}
        for one in components:
            self.names.setdefault(one["kind"], []).append(one["name"])
        self._types: dict[str, str] = {}  # table as JSON: name of its type
        self._taken: set[str] = set()
        self._lines: list[str] = []
        self._blocks: dict[str, str] = {}
        self.of: dict[tuple[str, str], str] = {}  # type of a component's parameters
        for one in self.components:
            if one["kind"] != "system":
                name = camel(one["kind"], one["name"])
                self.of[one["kind"], one["name"]] = self.table(name, one["fields"], one["doc"])
        for one in self.components:
            if one["kind"] == "system":
                fields = [self._constant("system", one["name"]), self._constant("base", None), *one["fields"]]
                self.of["system", one["name"]] = self.table(camel(one["name"], "config"), fields, one["doc"])

    @staticmethod
    def _constant(name: str, value: str | None) -> dict:
        """Keys that every config has."""
        doc = "What the config is about." if value else "A config below this one, or several."
        return {"name": name, "type": "string" if value else "list", "unit": "", "default": value, "range": "any value",
                "doc": doc, **({"choices": [value]} if value else {})}

    def block(self, kind: str) -> str:
        """The type of a block that chooses among policies of a kind."""
        if kind not in self._blocks:
            self._blocks[kind] = camel(kind, "block")
            inner = [{"name": "policy", "type": "string", "unit": "", "default": "", "range": "", "doc": "Which one.",
                      "choices": self.names[kind]}]
            inner += [{"name": c["name"], "type": "object", "unit": "", "default": {}, "range": "", "doc": c["doc"],
                       "fields": c["fields"], "called": camel(kind, c["name"])}
                      for c in self.components if c["kind"] == kind]
            self._blocks[kind] = self.table(camel(kind, "block"), inner, f"Chooses a policy of kind {kind}.")
        return self._blocks[kind]

    def type_of(self, field: dict, owner: str) -> str:
        """The annotation of a field."""
        plain, array = field["type"], False
        if plain.startswith("array of "):
            plain, array = plain.removeprefix("array of "), True
        if field.get("choices"):
            text = f"Literal[{', '.join(json.dumps(choice) for choice in field['choices'])}]"
        elif plain in ("integer", "number"):
            text = "Quantity" if field["unit"] in DIMENSIONS else {"integer": "int", "number": "float"}[plain]
        elif plain == "object" and field.get("policy_kind") in self.names:
            text = self.block(field["policy_kind"])
        elif plain == "object" and field.get("fields"):
            text = self.table(field.get("called", owner + camel(field["name"])), field["fields"], field["doc"])
        else:
            text = {"boolean": "bool", "string": "str", "list": "Union[str, Sequence[Union[str, int]]]",
                    "object": "Mapping[str, Any]"}[plain]
        if array:
            text = f"Sequence[{text}]"
        return f"Optional[{text}]" if field["default"] is None and not field.get("required") else text

    def table(self, name: str, fields: list[dict], doc: str) -> str:
        """Adds a TypedDict for a table, unless there is an equal one; its name."""
        key = json.dumps([{k: v for k, v in f.items() if k != "called"} for f in fields], sort_keys=True)
        if key in self._types:
            return self._types[key]
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        self._types[key] = name
        typed = [(field, self.type_of(field, name)) for field in fields]
        if all(f["name"].isidentifier() and not keyword.iskeyword(f["name"]) for f in fields):
            lines = [f"class {name}(TypedDict, total=False):", f"    {json.dumps(doc, ensure_ascii=False)}", ""]
            for field, text in typed:
                lines += [f"    # {line}" for line in self._comment(field)] + [f"    {field['name']}: {text}"]
        else:
            members = ", ".join(f"{json.dumps(field['name'])}: {text}" for field, text in typed)
            lines = [f"{name} = TypedDict({json.dumps(name)}, {{{members}}}, total=False)"]
        self._lines += ["", "", *lines]
        return name

    @staticmethod
    def _comment(field: dict) -> list[str]:
        facts = [field["unit"], field["range"] if field["range"] != "any value" else ""]
        facts = ", ".join(fact for fact in facts if fact and field["type"] in ("integer", "number"))
        return [field["doc"] + (f" ({facts})" if facts else "")]

    def text(self) -> str:
        """The module."""
        kinds = [f"{camel(kind, 'name')} = Literal[{', '.join(json.dumps(name) for name in sorted(set(names)))}]"
                 for kind, names in sorted(self.names.items()) if kind not in ("section",)]
        configs = [name for (kind, _), name in self.of.items() if kind == "system"]
        return "\n".join([HEAD, *kinds, *self._lines, "", "", f"Config = Union[{', '.join(configs)}]", ""])
