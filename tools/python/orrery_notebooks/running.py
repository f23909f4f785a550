"""Running a notebook without a browser."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import sys
import tempfile


def kernel_folder(folder: pathlib.Path) -> pathlib.Path:
    """Writes a kernel `python3` that is this interpreter, whatever other kernels are installed; for JUPYTER_PATH."""
    spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
    }
    kernel = folder / "kernels/python3/kernel.json"
    kernel.parent.mkdir(parents=True, exist_ok=True)
    kernel.write_text(json.dumps(spec, indent=1) + "\n")
    return folder


def execute(notebook: dict, timeout_s: int = 300) -> dict:
    """The notebook with its outputs, run in a kernel of this interpreter and a temporary folder.

    A cell that fails raises nbclient's CellExecutionError, which carries the trace.
    """
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")  # else debuggers of kernels warn of frozen modules
    import nbclient
    import nbformat

    node = nbformat.reads(json.dumps(notebook), as_version=4)
    with tempfile.TemporaryDirectory(prefix="orrery-notebook-") as folder:
        before = os.environ.get("JUPYTER_PATH")
        os.environ["JUPYTER_PATH"] = str(kernel_folder(pathlib.Path(folder) / "jupyter"))
        work = pathlib.Path(folder) / "work"
        work.mkdir()
        try:
            resources = {"metadata": {"path": str(work)}}
            nbclient.NotebookClient(node, timeout=timeout_s, kernel_name="python3", resources=resources).execute()
        finally:
            if before is None:
                del os.environ["JUPYTER_PATH"]
            else:
                os.environ["JUPYTER_PATH"] = before
    return node


def outputs(notebook: dict):
    """Each output with the number of its cell."""
    for place, cell in enumerate(notebook["cells"]):
        for output in cell.get("outputs", []):
            yield place, output


def images(notebook: dict) -> list[bytes]:
    """The figures that it drew, as PNG."""
    return [
        base64.b64decode(output["data"]["image/png"])
        for _, output in outputs(notebook)
        if "image/png" in output.get("data", {})
    ]


def complaints(notebook: dict) -> list[str]:
    """What its cells wrote to stderr: warnings, as a rule."""
    return [
        f"cell {place}: {output['text'].strip()}"
        for place, output in outputs(notebook)
        if output["output_type"] == "stream" and output["name"] == "stderr"
    ]
