"""The notebooks of tools/notebooks: their text form, their .ipynb form, and how they are run.

`NAME.py` holds a notebook as cells of the percent format; that is what is edited and reviewed. `NAME.ipynb` is made
from it, without outputs. A test holds the two equal.
"""

import pathlib

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "notebooks"


def names() -> list[str]:
    """Names of the notebooks, in order."""
    return sorted(path.stem for path in FOLDER.glob("*.py"))
