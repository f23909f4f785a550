"""Functions of the questions that are runs: an option of the command is a keyword."""

from __future__ import annotations

HEAD = '''# Made by orrery_stubs from the tables of options.
import os
from typing import Any, Mapping, Optional, Sequence, Union

from orrery.result import Result

_Text = Union[str, int, float]
'''

OWN = ("config: Union[str, os.PathLike[str], Mapping[str, Any]]", "overrides: Optional[Mapping[str, Any]] = ...", "*",
       "seed: Optional[int] = ...", "out: Any = ...", "force: bool = ...", "tables: bool = ...", "progress: Any = ...")


def _type(option: dict) -> str:
    if option["form"] == "enabled":
        return "bool"
    return "Optional[Union[_Text, Sequence[_Text]]]" if option["list"] else "Optional[_Text]"


def text(core) -> str:
    """The stub of orrery.questions."""
    lines = [HEAD]
    for question in core.questions():
        options = [f"{one['name'].replace('-', '_')}: {_type(one)} = ..." for one in question["options"]]
        lines += [f"def {question['name']}({', '.join([*OWN, *options])}, **sections: Any) -> Result: ..."]
    return "\n".join([*lines, ""])
