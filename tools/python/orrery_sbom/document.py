"""The SPDX 2.3 document, what must hold of it, and its licences as a table."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import pathlib
import re
import urllib.parse
from typing import Any

from . import debian, parts
from .names import Names

PROJECT, DOCUMENT = "SPDXRef-orrery", "SPDXRef-DOCUMENT"
PLOTLY_FILE = "debian/offline/plotly.js"  # in Debian's source of plotly
NO = "NOASSERTION"
PURPOSES = {parts.LINKED: "LIBRARY", parts.INSIDE: "LIBRARY"}


def made_at(root: pathlib.Path) -> str:
    """SOURCE_DATE_EPOCH, else the date of the commit, else 1970: never the clock, or equal builds would differ."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not epoch.isdigit():
        epoch = debian.output("git", "-C", str(root), "log", "-1", "--format=%ct").strip() or "0"
    return datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def identifier(name: str) -> str:
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", lambda found: f"-{ord(found[0]):02x}-", name)


def version_of(root: pathlib.Path) -> str:
    return re.search(r"project\(orrery VERSION ([0-9.]+)", (root / "CMakeLists.txt").read_text(encoding="utf8"))[1]


def entry(name: str, version: str, declared: str, comments: list[str], purpose: str) -> dict[str, Any]:
    """A package of the document."""
    found = {"SPDXID": identifier(name), "name": name, "versionInfo": version, "downloadLocation": NO,
             "filesAnalyzed": False, "licenseConcluded": NO, "licenseDeclared": declared, "copyrightText": NO,
             "primaryPackagePurpose": purpose}
    if comments:
        found["licenseComments"] = "; ".join(comments)
    return found


def plotly_js() -> str:
    """Version of the plotly.js that pages have inside; empty without plotly."""
    try:
        from plotly.offline import get_plotlyjs_version
    except ImportError:
        return ""
    return get_plotlyjs_version()


class Builder:
    """Gathers packages, relations and licences that SPDX does not know."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root, self.names = root, Names()
        self.packages: list[dict[str, Any]] = []
        self.relations: list[tuple[str, str, str]] = [(DOCUMENT, "DESCRIBES", PROJECT)]
        self.texts: dict[str, str] = {}

    def declared(self, licence: debian.Licence) -> tuple[str, list[str]]:
        """Expression and comments. Texts are kept of what has no identifier."""
        comments = [licence.comment] if licence.comment else []
        if licence.others:
            comments.append(f"other files of the source package: {', '.join(licence.others)}")
        if not licence.declared:
            return NO, comments
        expression = self.names.expression(licence.declared)
        for name, ref in self.names.own.items():
            self.texts[ref] = self.texts.get(ref) or dict(licence.texts).get(name, "")
        return expression, comments

    def add(self, part: parts.Part) -> None:
        package = part.package
        expression, comments = self.declared(debian.licence(package.name))
        found = entry(package.name, package.version, expression, comments, PURPOSES.get(part.relation, "APPLICATION"))
        found["supplier"] = "Organization: Debian"
        name, version = (urllib.parse.quote(text, safe="") for text in (package.name, package.version))
        found["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                  "referenceLocator": f"pkg:deb/debian/{name}@{version}?arch={package.architecture}"}]
        if part.libraries:
            found["comment"] = f"needed as {', '.join(part.libraries)}"
        self.packages.append(found)
        ours_first = part.relation in (parts.LINKED, parts.INSIDE)
        ends = (PROJECT, identifier(package.name))
        self.relations.append((ends[0], part.relation, ends[1]) if ours_first else (ends[1], part.relation, ends[0]))
        if package.name == "python3-plotly" and plotly_js():
            expression, comments = self.declared(debian.licence(package.name, PLOTLY_FILE))
            found = entry("plotly.js", plotly_js(), expression, comments, "LIBRARY")
            found["comment"] = "inside of every page that orrery report writes"
            self.packages.append(found)
            self.relations.append((identifier(package.name), "CONTAINS", identifier("plotly.js")))

    def document(self) -> dict[str, Any]:
        version = version_of(self.root)
        project = entry("orrery", version, "Apache-2.0", ["LICENSE"], "APPLICATION")
        packages = sorted([project, *self.packages], key=lambda one: one["name"])
        relations = [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
                     for one, kind, other in sorted(self.relations)]
        texts = [{"licenseId": ref, "name": name,
                  "extractedText": self.texts.get(ref) or "in the package's copyright file"}
                 for name, ref in sorted(self.names.own.items(), key=lambda one: one[1])]
        body = {"packages": packages, "relationships": relations, "hasExtractedLicensingInfos": texts}
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]
        return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": DOCUMENT, "name": f"orrery-{version}",
                "documentNamespace": f"urn:orrery:sbom:{version}:{digest}",
                "creationInfo": {"created": made_at(self.root), "creators": ["Tool: orrery-sbom"]}, **body}


def document(root: pathlib.Path, binaries: list[pathlib.Path]) -> dict[str, Any]:
    """The document of a build: the same bytes for the same build on the same packages."""
    builder = Builder(root)
    for part in parts.parts(root, binaries):
        builder.add(part)
    return builder.document()


# -- what must hold of it ---------------------------------------------------------------------------------------------


def faults(found: dict[str, Any], root: pathlib.Path, binaries: list[pathlib.Path]) -> list[str]:
    """What is wrong with a document of this build; nothing if it is whole."""
    wrong = [f"{key} is not {value}" for key, value in (("spdxVersion", "SPDX-2.3"), ("dataLicense", "CC0-1.0"),
                                                        ("SPDXID", DOCUMENT)) if found.get(key) != value]
    wrong += [f"no {key}" for key in ("name", "documentNamespace", "creationInfo") if not found.get(key)]
    packages = found.get("packages", [])
    known = {one.get("SPDXID") for one in packages} | {DOCUMENT}
    refs = {one["licenseId"] for one in found.get("hasExtractedLicensingInfos", [])}
    if len(known) != len(packages) + 1:
        wrong.append("two packages have one identifier")
    for one in packages:
        name = one.get("name", "a package")
        keys = ("name", "SPDXID", "versionInfo", "licenseDeclared", "downloadLocation")
        wrong += [f"{name} has no {key}" for key in keys if not one.get(key)]
        used = re.findall(r"LicenseRef-[A-Za-z0-9.-]+", one.get("licenseDeclared", ""))
        wrong += [f"{name}: {ref} has no text" for ref in used if ref not in refs]
        if one.get("licenseDeclared") == NO and not one.get("licenseComments"):
            wrong.append(f"{name} declares no licence, and does not say why")
    related = set()
    for one in found.get("relationships", []):
        ends = {one["spdxElementId"], one["relatedSpdxElement"]}
        wrong += [f"{end} is related, but not there" for end in sorted(ends - known)]
        related |= ends
    wrong += [f"{one} is related to nothing" for one in sorted(known - related)]
    names = {one.get("name") for one in packages}
    for library, name in parts.libraries(binaries).items():
        if name not in names:
            wrong.append(f"{library} is needed, but {name} is not there")
    wrong += [f"{part.package.name} is a part, but not there" for part in parts.parts(root, binaries)
              if part.package.name not in names]
    return wrong


# -- for people -------------------------------------------------------------------------------------------------------


def licences(found: dict[str, Any]) -> dict[str, dict[str, list[str]]]:
    """Packages by licence: those that run with the project, and those that make and test it. Its own is left out."""
    relation = {}
    for one in found["relationships"]:
        for end in (one["spdxElementId"], one["relatedSpdxElement"]):
            relation.setdefault(end, one["relationshipType"])
    table: dict[str, dict[str, list[str]]] = {}
    for one in found["packages"]:
        if one["SPDXID"] == PROJECT:
            continue
        runs = relation[one["SPDXID"]] in (*parts.SHIPPED, "CONTAINS")
        row = table.setdefault(one["licenseDeclared"], {"runs": [], "makes": []})
        row["runs" if runs else "makes"].append(one["name"])
    return table


def table(found: dict[str, Any]) -> str:
    """The licences as a table of Markdown."""
    lines = ["| licence | linked, compiled in, or run with it | builds and tests it |", "| --- | --- | --- |"]
    for licence, row in sorted(licences(found).items()):
        cells = [" · ".join(f"`{name}`" for name in row[kind]) or "–" for kind in ("runs", "makes")]
        lines.append(f"| {licence if licence != NO else 'see the package’s file'} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)
