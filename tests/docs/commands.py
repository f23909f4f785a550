"""Command lines of `orrery` in the docs: does the command exist, and every flag?"""

from __future__ import annotations

import functools
import os
import re
import shlex
import subprocess

COMMAND = os.environ.get("ORRERY_COMMAND", "orrery")


@functools.cache
def help_of(*words: str) -> str:
    """What `orrery WORDS --help` prints; "" where there is no such command."""
    done = subprocess.run([COMMAND, *words, "--help"], capture_output=True, text=True, check=False, timeout=60)
    return done.stdout if done.returncode == 0 else ""


@functools.cache
def subcommands(*words: str) -> tuple[str, ...]:
    # Under whatever headings: below the usage, what begins with a letter is a command; options begin with a dash.
    return tuple(re.findall(r"^  ([a-z][\w-]*)\s", help_of(*words), re.M)) if "SUBCOMMAND" in help_of(*words) else ()


@functools.cache
def flags(*words: str) -> frozenset[str]:
    """All flags of a command, and of `orrery` itself."""
    return frozenset(re.findall(r"(?<![\w-])--?[\w-]+", help_of(*words).split("Options:")[-1])) | {"--help", "--version"}


def split(text: str) -> list[str]:
    """Words of a command line up to the first pipe or redirection; brackets of a synopsis do not count."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError:  # a quote that is not closed: prose
        words = text.split()
    for end, word in enumerate(words):
        if re.match(r"^(\d?>|\||&&|;)", word):
            words = words[:end]
            break
    return words


def faults(text: str) -> list[str]:
    """What is wrong with `orrery …` as documented: names of commands and flags that are not there."""
    words = split(text)[1:]
    if not words or words[0].startswith("-"):
        return [f"orrery has no {word}" for word in words[:1] if word not in flags()]
    if not re.match(r"^[a-z]", words[0]):
        return []  # a placeholder
    path: list[str] = []
    while words and subcommands(*path):
        choice = words.pop(0).strip("[]…,")
        if not re.match(r"^[a-z|-]+$", choice):
            break
        unknown = [one for one in choice.split("|") if not help_of(*path, one)]
        if unknown:
            return [f"there is no command 'orrery {' '.join([*path, unknown[0]])}'"]
        path.append(choice.split("|")[0])
    if "--" in words:
        words = words[: words.index("--")]
    known = flags(*path)
    named = [re.split(r"[=\]|…,]", word.strip("[]()…,"))[0] for word in words if re.match(r"^\[?--\w", word)]
    return [f"'orrery {' '.join(path)}' has no {flag}" for flag in named if flag not in known]
