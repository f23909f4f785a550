"""Sources with changes in them, each behind a switch."""

from __future__ import annotations

import dataclasses

from .sites import Site


@dataclasses.dataclass
class Placed:
    """A changed source, and the lines of it that each change takes."""

    text: bytes
    lines: dict[int, tuple[int, int]]  # by number of change


class Rewriter:
    """Puts changes into one file. Changes may nest; two of the same range may not."""

    def __init__(self, text: bytes, sites: dict[int, Site]) -> None:
        self.text = text
        self.sites = sorted(sites.items(), key=lambda item: (item[1].begin, -item[1].end))

    def all(self) -> Placed:
        marked = self.within(0, len(self.text), None)
        lines: dict[int, tuple[int, int]] = {}
        starts: dict[int, int] = {}
        out = bytearray()
        row = 1
        i = 0
        while i < len(marked):  # marks: \x01 number \x02 before a change, \x03 number \x02 after it
            byte = marked[i]
            if byte in (1, 3):
                end = marked.index(2, i)
                number = int(marked[i + 1:end])
                if byte == 1:
                    starts[number] = row
                elif number in lines:
                    lines[number] = (min(lines[number][0], starts[number]), max(lines[number][1], row))
                else:
                    lines[number] = (starts[number], row)
                i = end + 1
                continue
            row += byte == 10
            out.append(byte)
            i += 1
        return Placed(bytes(out), lines)

    def within(self, begin: int, end: int, but: int | None) -> bytes:
        """The text of a range with the changes in it, but for one whose range it may be."""
        out = []
        at = begin
        for number, site in self.sites:
            if number == but or site.begin < at or site.end > end:
                continue
            out.append(self.text[at:site.begin])
            out.append(b"\x01%d\x02" % number + self.changed(number, site) + b"\x03%d\x02" % number)
            at = site.end
        out.append(self.text[at:end])
        return b"".join(out)

    def changed(self, number: int, site: Site) -> bytes:
        text = self.within(site.begin, site.end, number)
        parts = [self.within(begin, end, number) for begin, end in site.parts]
        kind, *words = site.kind.split(" ")
        sure = b"orrery_mutant::sure(%d)" % number
        if kind == "delete":
            return b"(%b ? static_cast<void>(0) : static_cast<void>(%b))" % (sure, text)
        if kind == "assign":
            return b"(orrery_mutant::on(%d) ? static_cast<void>(0) : static_cast<void>((orrery_mutant::watching ? " \
                   b"orrery_mutant::note(%d, !((%b) == (%b))) : void(), %b)))" % (number, number, parts[1], parts[2], text)
        if kind == "jump":
            return b"if (!%b) %b" % (sure, text)
        if kind == "negate":
            return b"(%b ? !(%b) : static_cast<bool>(%b))" % (sure, text, text)
        new, old = self.forms(kind, words, text, parts)
        if not site.watch:
            return b"(%b ? (%b) : (%b))" % (sure, new, old)
        return b"(orrery_mutant::on(%d) ? (%b) : ((orrery_mutant::watching ? orrery_mutant::note(%d, !((%b) == (%b))) : " \
               b"void()), (%b)))" % (number, new, number, new, old, old)

    @staticmethod
    def forms(kind: str, words: list[str], text: bytes, parts: list[bytes]) -> tuple[bytes, bytes]:
        """The changed and the original form."""
        code = [word.encode() for word in words]
        if kind in {"binary", "compound"}:
            return b"(%b) %b (%b)" % (parts[0], code[1], parts[1]), b"(%b) %b (%b)" % (parts[0], code[0], parts[1])
        if kind in {"left", "right"}:
            kept = parts[0] if kind == "left" else parts[1]
            if code[0] in {b"&&", b"||"}:
                kept = b"static_cast<bool>(%b)" % kept
            return kept, b"(%b) %b (%b)" % (parts[0], code[0], parts[1])
        if kind == "prefix":
            return b"%b(%b)" % (code[1], parts[0]), b"%b(%b)" % (code[0], parts[0])
        if kind == "postfix":
            return b"(%b)%b" % (parts[0], code[1]), b"(%b)%b" % (parts[0], code[0])
        if kind == "not":
            return b"static_cast<bool>(%b)" % parts[0], text
        if kind == "minus":
            return parts[0], text
        if kind == "more":
            return text + b" + 1", text
        if kind == "literal":
            return " ".join(words).encode(), text
        if kind == "call":
            return code[0] + parts[1], parts[0] + parts[1]
        raise ValueError(kind)
