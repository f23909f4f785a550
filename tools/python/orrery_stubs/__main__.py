"""Writes `_orrery.pyi`, `named.pyi`, `questions.pyi` and `params.py` into a folder: `python orrery_stubs FOLDER [OUT]`.

FOLDER holds the compiled module; it is read by itself, without the package around it.
"""

import importlib.util
import pathlib
import sys


def load(folder: pathlib.Path):
    """The compiled module of a built package."""
    file = next(folder.glob("_orrery*.so"))
    spec = importlib.util.spec_from_file_location("orrery._orrery", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def texts(module) -> dict[str, str]:
    """Files by name."""
    from orrery_stubs import core, named, params, questions

    declared = params.Declarations(module.components())
    return {"_orrery.pyi": core.text(module), "params.py": declared.text(), "named.pyi": named.text(declared, module),
            "questions.pyi": questions.text(module)}


def write(module, out: pathlib.Path) -> None:
    """Makes the files; those that are equal already keep their dates."""
    out.mkdir(parents=True, exist_ok=True)
    for name, text in texts(module).items():
        path = out / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    folder = pathlib.Path(sys.argv[1])
    write(load(folder), pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else folder)
