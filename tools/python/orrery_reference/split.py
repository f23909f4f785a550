"""Long pages cut at their headings, so that each stays readable; links follow.

A page beyond the limit keeps its title, what it says before its first heading, and a list of its parts. A part is a
section, or as many sections below it as the limit holds.
"""

from __future__ import annotations

import re

MOST_BYTES = 38_000
HEADING = re.compile(r"^(#{2,4}) (.*)$", re.M)


def anchor(heading: str) -> str:
    """What a link names behind '#', as web pages of repositories spell it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def sections(text: str, level: str) -> list[str]:
    """The text before the first heading of that level, then a piece a heading."""
    return re.split(rf"^(?={level} )", text, flags=re.M)


def size(text: str) -> int:
    return len(text.encode("utf-8"))


def title_of(section: str) -> str:
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", section.partition("\n")[0].lstrip("# "))


def pieces(section: str) -> list[str]:
    """A section as texts within the limit, cut at the next level of headings."""
    if size(section) <= MOST_BYTES:
        return [section]
    head, *below = sections(section, "###")
    made = [head]
    for one in below:
        if size(made[-1]) + size(one) > MOST_BYTES and made[-1].strip():
            made.append("")
        made[-1] += one
    return made


def split_page(name: str, text: str) -> dict[str, str]:
    """The page, or its parts by file name."""
    if size(text) <= MOST_BYTES:
        return {name: text}
    head, *parts = sections(text, "##")
    title = text.partition("\n")[0].lstrip("# ")
    made_mark = next((line for line in head.splitlines() if line.startswith("<!--")), "")
    stem = name.removesuffix(".md")
    made: dict[str, str] = {}
    rows = []
    for part in parts:
        section = title_of(part)
        for i, piece in enumerate(pieces(part)):
            file = f"{stem}-{anchor(section)}{f'-{i + 1}' if i else ''}.md"
            shown = section if i == 0 else f"{section}, continued"
            body = piece.partition("\n")[2] if i == 0 else piece
            made[file] = f"# {title}: {shown.replace('`', '')}\n\n{made_mark}\n\n[{title}]({name})\n{body if body.startswith(chr(10)) else chr(10) + body}"
            names = [title_of(one) for one in sections(piece, "###")[1:]]
            rows.append(f"- [{shown.replace('`', '')}]({file})" + (": " + ", ".join(names[:12]) + (" …" if len(names) > 12 else "") if names else ""))
    return {name: head.rstrip("\n") + "\n\n" + "\n".join(rows) + "\n", **made}


def split_pages(pages: dict[str, str]) -> dict[str, str]:
    """All pages, the long ones in parts; links to headings lead to the part that has them."""
    made: dict[str, str] = {}
    where: dict[tuple[str, str], str] = {}  # (page as it was, anchor): the part that has it
    origin: dict[str, str] = {}
    for name, text in pages.items():
        parts = split_page(name, text)
        for file, part in parts.items():
            origin[file] = name
            for _, heading in HEADING.findall(part):
                where.setdefault((name, anchor(heading)), file)
            if file != name:
                section = re.match(r"# [^:]*: (.*)", part)
                if section:
                    where.setdefault((name, anchor(section[1])), file)
        made |= parts

    def turned(file: str, match: re.Match) -> str:
        target = match[1] or origin[file]
        goal = where.get((target, match[2]))
        if goal is None:
            return match[0]
        first = HEADING.search(made[goal])
        whole = first is None or (goal != target and anchor(title_of(made[goal].partition(": ")[2])) == match[2])
        return f"]({goal})" if whole else f"](#{match[2]})" if goal == file else f"]({goal}#{match[2]})"

    return {file: re.sub(r"\]\(([\w-]*\.md)?#([\w-]+)\)", lambda match, file=file: turned(file, match), text)
            for file, text in made.items()}
