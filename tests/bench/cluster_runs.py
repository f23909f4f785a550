"""Cheap runs a second on a Dask cluster of two local workers, and whether the rows are those of one machine.

    tools/setup cluster
    ORRERY_COMMAND=build/release/orrery /usr/bin/python3 tests/bench/cluster_runs.py [POINTS_A_SIDE]

Wall time less that of a study of one point (Python and Dask start); docs/explain/clusters.md has the figures.
"""

import json
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

from support import command  # noqa: E402
from test_cluster import Cluster, content  # noqa: E402


def study(side: int) -> dict:
    """A sweep of side x side points of a function."""
    return {
        "kind": "study",
        "version": 1,
        "base": {"system": "function", "workload": {"function": "bnh", "point": {"x": 1, "y": 1}}},
        "parameters": [
            {"name": "x", "path": "workload.point.x", "range": [0, 5], "steps": side},
            {"name": "y", "path": "workload.point.y", "range": [0, 3], "steps": side},
        ],
        "measures": {"f1": "f1", "f2": "f2", "g1": "limits.g1"},
        "objectives": [{"minimise": "f1"}, {"minimise": "f2"}],
        "limits": [{"value": "g1", "most": 0}],
    }


def swept(folder: pathlib.Path, name: str, side: int, *how: object) -> float:
    """Seconds that the sweep takes; its store is folder/name.sqlite."""
    file = folder / f"{name}.json"
    file.write_text(json.dumps(study(side)))
    began = time.perf_counter()
    done = command("sweep", file, "--out", folder / f"{name}.sqlite", "--quiet", *how)
    if done.returncode:
        sys.exit(done.stderr)
    return time.perf_counter() - began


def main() -> None:
    side = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        cluster = Cluster(scratch, 2)
        try:
            time.sleep(3)
            remote = ("--cluster", cluster.address)
            start = swept(folder, "one", 1, *remote)
            took = swept(folder, "many", side, *remote) - start
        finally:
            cluster.close()
        file = folder / "many.sqlite"
        file.rename(folder / "remote.sqlite")
        local = swept(folder, "many", side, "--jobs", 2)
        same = content(folder / "remote.sqlite") == content(file)
    print(f"{side * side} runs: {side * side / took:.0f} a second on the cluster, {side * side / local:.0f} on two threads; "
          f"rows {'identical' if same else 'DIFFER'}")


if __name__ == "__main__":
    main()
