"""A notebook as text (cells that start with `# %%`) and as .ipynb; either makes the other, byte for byte."""

from __future__ import annotations

import json

CODE = "# %%"
TEXT = "# %% [markdown]"

_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {
        "file_extension": ".py", "mimetype": "text/x-python", "name": "python", "pygments_lexer": "ipython3",
    },
}


def _strip(lines: list[str]) -> list[str]:
    """Without empty lines at either end."""
    while lines and not lines[0].strip():
        lines = lines[1:]
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines


def _cell(marker: str, lines: list[str]) -> dict:
    lines = _strip(lines)
    if marker == TEXT:
        for line in lines:
            if not line.startswith("#"):
                raise ValueError(f"expected a line of text to begin with '#', got {line!r}")
        lines = [line[2:] if line.startswith("# ") else line[1:] for line in lines]
        return {"cell_type": "markdown", "metadata": {}, "source": _source(lines)}
    if marker != CODE:
        raise ValueError(f"expected '{CODE}' or '{TEXT}', got {marker!r}")
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": _source(lines)}


def _source(lines: list[str]) -> list[str]:
    return [line + "\n" for line in lines[:-1]] + lines[-1:]


def to_notebook(text: str) -> dict:
    """The notebook that a text says. ValueError for text before the first cell or a cell of an unknown kind."""
    cells, marker, lines = [], None, []
    for line in text.splitlines() + [CODE]:
        if not line.startswith(CODE):
            lines.append(line)
            continue
        if marker is not None:
            cells.append(_cell(marker, lines))
        elif _strip(lines):
            raise ValueError(f"expected '{CODE}' before {_strip(lines)[0]!r}")
        marker, lines = line.rstrip(), []
    # Version 4.4: cells have no identifiers, which would be other ones after each change.
    return {"cells": cells, "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 4}


def to_json(notebook: dict) -> str:
    """The bytes of an .ipynb: sorted keys, an indent of one, as Jupyter writes them."""
    return json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def to_text(notebook: dict) -> str:
    """The text of a notebook, whatever Jupyter has added to it; outputs are dropped."""
    blocks = []
    for cell in notebook["cells"]:
        lines = _strip("".join(cell["source"]).splitlines())
        if not lines:
            continue
        if cell["cell_type"] == "markdown":
            lines = [f"# {line}".rstrip() for line in lines]
        blocks.append("\n".join([TEXT if cell["cell_type"] == "markdown" else CODE, *lines]) + "\n")
    return "\n".join(blocks)
