"""Where the seeds of a fuzz target are: its own, and of configs and studies those that ship."""

import pathlib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SHIPPED = {"config": ["experiments/studies", "tests/trust/configs"], "study": ["experiments/studies"]}


def targets() -> list[str]:
    """Names, in order: every target has a folder of seeds."""
    return sorted(path.name for path in (HERE / "corpus").iterdir())


def of(target: str) -> list[pathlib.Path]:
    """Folders of seeds."""
    return [HERE / "corpus" / target, *(ROOT / folder for folder in SHIPPED.get(target, []))]
