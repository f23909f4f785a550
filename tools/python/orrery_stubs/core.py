"""The stub of the compiled module, from the signatures that pybind11 writes into docstrings."""

from __future__ import annotations

import inspect
import re

HEAD = '''# Made by orrery_stubs from the compiled module.
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

import numpy
'''

_PLAIN = {"int", "float", "str", "bool", "bytes", "dict", "list", "tuple", "None", "object"}


def _annotation(text: str) -> str:
    """pybind11's words for a type as annotations; what has no word is Any."""
    text = re.sub(r"numpy\.ndarray\[[^\]]*\]", "numpy.ndarray", text)
    text = text.replace("_orrery.", "").replace("orrery.", "").replace("object", "Any").replace("handle", "Any")
    text = text.replace("function", "Callable[..., Any]").replace("Callable[..., Any]s", "functions")
    return text if re.fullmatch(r"[\w\[\], .]+", text) else "Any"


def _signature(name: str, doc: str) -> list[str]:
    """Definitions of a function; several where it is overloaded."""
    found = re.findall(rf"^(?:\d+\. )?{re.escape(name)}\((.*)\) -> (.+)$", doc or "", re.M)
    made = []
    for arguments, result in found:
        parts = re.split(r", (?![^\[(]*[\])])", arguments) if arguments else []
        shown = []
        for place, part in enumerate(parts):
            word, _, kind = part.partition(": ")
            kind, _, default = kind.partition(" = ")
            if word == "self":
                shown.append("self")
            elif word in ("*", "**kwargs", "*args", "/"):
                shown.append(word)
            else:
                shown.append(f"{word}: {_annotation(kind)}" + (" = ..." if default else ""))
        made.append(f"def {name}({', '.join(shown)}) -> {_annotation(result)}: ...")
    return made


def _methods(owner, indent: str) -> list[str]:
    lines = []
    for name, member in sorted(vars(owner).items()):
        if isinstance(member, property):
            result = re.search(r"-> (.+)$", member.fget.__doc__ or "", re.M)
            gives = _annotation(result[1]) if result else "Any"
            lines += [f"{indent}@property", f"{indent}def {name}(self) -> {gives}: ..."]
        elif inspect.isroutine(member) and (not name.startswith("_") or name in ("__init__", "__len__", "__iter__",
                                                                                "__getitem__", "__call__")):
            made = _signature(name, member.__doc__)
            if len(made) > 1:
                made = [line for one in made for line in ("@overload", one)]
            gives = "None" if name == "__init__" else "Any"
            made = made or [f"def {name}(self, *args: Any, **kwargs: Any) -> {gives}: ..."]
            lines += [f"{indent}{one}" for one in made]
    return lines or [f"{indent}..."]


def text(module) -> str:
    """The stub."""
    functions, classes, values = [], [], []
    for name, member in sorted(vars(module).items()):
        if name.startswith("__"):
            continue
        if inspect.isclass(member):
            classes += ["", f"class {name}:", *_methods(member, "    ")]
        elif inspect.isroutine(member):
            functions += _signature(name, member.__doc__) or [f"def {name}(*args: Any, **kwargs: Any) -> Any: ..."]
        else:
            values.append(f"{name}: {type(member).__name__}")
    overloads = ["from typing import overload", ""] if "@overload" in "\n".join(classes) else []
    return "\n".join([HEAD, *overloads, *values, *functions, *classes, ""])
