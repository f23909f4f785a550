"""Plots of studies, from what `orrery analyse` knows of their stores.

    python3 orrery_study ANALYSIS.json --png FOLDER

Of all stores together front.png (two objectives or more) and history.png; of each store importance.png, interactions.png
and parallel.png, with the store's name before the dot where there are several. Prints the path of every file.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from orrery_plot import studies  # noqa: E402


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="orrery_study", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("analysis", type=Path)
    parser.add_argument("--png", type=Path, required=True)
    options = parser.parse_args(arguments)
    analysis = json.loads(options.analysis.read_text(encoding="utf-8"))
    for path in studies.write(analysis, options.png):
        print(path, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
