"""What Debian says of its packages: version, source, which one a file is of, and the licence in its copyright file."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import re
import subprocess

DOCS = pathlib.Path("/usr/share/doc")


@dataclasses.dataclass(frozen=True)
class Licence:
    """Of a package: that of `Files: *`, and the names of all others in the file. No name: the file is for people."""

    declared: str = ""
    others: tuple[str, ...] = ()
    texts: tuple[tuple[str, str], ...] = ()  # by short name
    comment: str = ""


@dataclasses.dataclass(frozen=True)
class Package:
    """A Debian package that is installed."""

    name: str
    version: str
    source: str
    architecture: str
    depends: tuple[str, ...]


def output(*words: str) -> str:
    """What a command prints; nothing where it fails."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


@functools.cache
def package(name: str) -> Package | None:
    """A package by its name; None where it is not installed."""
    fields = "${db:Status-Status}\t${Package}\t${Version}\t${source:Package}\t${Architecture}\t${Depends}\n"
    for line in output("dpkg-query", "-W", "-f", fields, name).splitlines():
        status, name, version, source, architecture, depends = line.split("\t")
        if status == "installed":
            names = tuple(re.split(r"[ (:|]", one.strip())[0] for one in depends.split(",") if one.strip())
            return Package(name, version, source, architecture, names)
    return None


def stem(name: str) -> str:
    """A package's name without numbers: libboost1.74-dev is a libboost-dev, g++-12 a g++."""
    return re.sub(r"-?[0-9][0-9.]*", "", name)


def real(found: Package) -> Package:
    """The package behind one that only names the default version of it (source boost-defaults …)."""
    if found.source.endswith("-defaults"):
        for name in found.depends:
            other = package(name) if stem(name) == stem(found.name) and name != found.name else None
            if other and not other.source.endswith("-defaults"):
                return other
    return found


@functools.cache
def library_paths() -> dict[str, str]:
    """Where the dynamic linker finds each library of this host's kind, by name."""
    told = output("/sbin/ldconfig", "-p") or output("ldconfig", "-p")
    rows = re.findall(r"^\t(\S+) \(([^)]*)\) => (\S+)$", told, re.MULTILINE)
    return {name: path for name, kind, path in reversed(rows) if "x86-64" in kind or "AArch64" in kind}


@functools.cache
def owner(path: str) -> str:
    """The package that a file is of; empty if none is. Known by the name it was installed under: /lib or /usr/lib."""
    resolved = str(pathlib.Path(path).resolve())
    places = (path, resolved, path.removeprefix("/usr"), f"/usr{path}", resolved.removeprefix("/usr"))
    for name in dict.fromkeys(places):
        told = output("dpkg-query", "-S", name)
        if told:
            return told.split(":")[0].split(",")[0]
    return ""


def paragraphs(text: str) -> list[dict[str, str]]:
    """Of a file in Debian's control format. A field keeps its lines, each stripped."""
    found: list[dict[str, str]] = [{}]
    field = ""
    for line in text.splitlines():
        if not line.strip():
            found.append({})
        elif line[0] not in " \t" and ":" in line:
            field, _, value = line.partition(":")
            found[-1][field.lower()] = value.strip()
        elif field and field.lower() in found[-1]:
            found[-1][field.lower()] += "\n" + line.strip()
    return [one for one in found if one]


def short_name(paragraph: dict[str, str]) -> str:
    return paragraph["license"].split("\n")[0].strip() if "license" in paragraph else ""


def licence(name: str, files: str = "*") -> Licence:
    """What a package's copyright file declares for these files."""
    path = DOCS / name / "copyright"
    try:
        text = path.read_text(encoding="utf8", errors="replace")
    except OSError:
        return Licence(comment=f"{path} is not there")
    if not text.startswith("Format:"):
        return Licence(comment=f"Not machine-readable: {path}")
    every = paragraphs(text)
    of_files = [one for one in every if "files" in one and "license" in one]
    mine = next((one for one in of_files if files in one["files"].split()), None)
    declared = short_name(mine) if mine else ""
    if not declared and files == "*" and len({short_name(one) for one in of_files}) == 1:
        declared = short_name(of_files[0])  # all parts are named, and have one
    others = sorted({short_name(one) for one in of_files} - {declared, ""}) if files == "*" else []
    texts = {short_name(one): one["license"].partition("\n")[2] for one in every if "\n" in one.get("license", "")}
    comment = "" if declared else f"No short name for {files}: {path}"
    return Licence(declared, tuple(others), tuple(sorted(texts.items())), comment)
