"""Where code can be changed, and how: sites of a compilation unit, from clang's syntax tree (clang-query)."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
import re
import subprocess

from .tree import Files, Node, Tree

VERSION = 2  # of what this file finds: part of the cache's key

QUERY = """set bind-root true
set output dump
m functionDecl(isDefinition(), isExpansionInFileMatching("{pattern}"), unless(isTemplateInstantiation()), \
unless(isImplicit()), unless(hasAncestor(functionDecl())))
"""

BOUNDARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/"}
COMPOUND = {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*="}
NUMBERS = re.compile(r"^(const )?(unsigned |signed )?(char|short|int|long|long long|float|double|bool|__int128|long double)$")
# Calls whose arguments are no decision, or text; functions that only declare (field tables, registration).
DULL_CALLS = {"reserve", "shrink_to_fit", "field", "fault", "fail", "refuse", "throw_fault", "throw_cell", "format",
              "to_string", "unreachable", "terminate", "abort", "suspect"}
DULL_FUNCTIONS = re.compile(r"^(fields|add_\w+|register_\w+|describe\w*|throw_\w+|to_string)$")
# Calls without effects, which may be made a second time to see whether a change would show.
PURE_CALLS = {"min", "max", "ssize", "size", "empty", "front", "back", "begin", "end", "cbegin", "cend", "abs", "data",
              "value", "has_value", "get", "at", "count", "find", "contains", "floor", "ceil", "isnan", "isfinite", "first",
              "length", "top", "value_or", "move"}
PURE_KINDS = {"DeclRefExpr", "MemberExpr", "ImplicitCastExpr", "ParenExpr", "IntegerLiteral", "FloatingLiteral",
              "CXXBoolLiteralExpr", "CXXNullPtrLiteralExpr", "CXXThisExpr", "ConditionalOperator", "CXXStaticCastExpr",
              "CXXFunctionalCastExpr", "ExprWithCleanups", "MaterializeTemporaryExpr", "ArraySubscriptExpr",
              "CXXRewrittenBinaryOperator", "ConstantExpr", "CharacterLiteral", "SubstNonTypeTemplateParmExpr"}
CALLS = {"CallExpr", "CXXMemberCallExpr", "CXXOperatorCallExpr"}
WRAPPERS = {"ImplicitCastExpr", "ExprWithCleanups", "MaterializeTemporaryExpr", "CXXBindTemporaryExpr", "ParenExpr"}


@dataclasses.dataclass(frozen=True, order=True)
class Site:
    """One change. `parts` are ranges of operands; `watch` says that both forms may be computed and compared."""

    path: str  # from the root of the tree
    line: int
    begin: int
    end: int
    kind: str
    change: str
    parts: tuple[tuple[int, int], ...] = ()
    watch: bool = False

    def shown(self) -> str:
        return f"{self.path}:{self.line}: {self.change}"


def callee(node: Node) -> str:
    """The name of the function that a call calls; empty where it has none."""
    head = node.children[0] if node.children else None
    while head is not None and head.kind in WRAPPERS and head.children:
        head = head.children[0]
    if head is None:
        return ""
    if head.kind == "MemberExpr":
        found = re.search(r"(?:->|\.)(~?\w+) 0x", head.rest)
        return found.group(1) if found else ""
    if head.kind == "DeclRefExpr":
        found = re.search(r" '([\w]+)' '", head.rest)
        return found.group(1) if found else ""
    found = re.search(r" '([\w]+)'|(?:->|\.)(\w+)", head.rest)  # in templates: an unresolved name
    return (found.group(1) or found.group(2)) if found else ""


def pure(node: Node) -> bool:
    if node.kind in CALLS:
        if node.kind == "CXXOperatorCallExpr":
            if node.operator not in {"[]", "*", "->", "==", "!=", "<", ">", "<=", ">=", "-", "+", "<=>"}:
                return False
            if node.operator == "[]" and len(node.children) > 1 and "map<" in node.children[1].type:
                return False
        elif callee(node) not in PURE_CALLS:
            member = node.children[0] if node.children else None
            on_const = member is not None and member.kind == "MemberExpr" and member.children and \
                member.children[0].type.startswith("const ")
            if not on_const:
                return False
    elif node.kind == "BinaryOperator":
        if node.operator in {"=", ","}:
            return False
    elif node.kind == "UnaryOperator":
        if "++" in node.rest or "--" in node.rest:
            return False
    elif node.kind == "CXXOperatorCallExpr" or node.kind not in PURE_KINDS:
        return False
    return all(pure(child) for child in node.children if child.kind != "Null")


def waits(node: Node) -> bool:
    return node.kind in {"CoawaitExpr", "CoyieldExpr"} or any(waits(child) for child in node.children)


class Finder:
    def __init__(self, root: str, files: Files) -> None:
        self.root, self.files = root, files
        self.sites: dict[tuple[str, int, int, str], Site] = {}

    def text(self, path: str, begin: int, end: int) -> str:
        return " ".join(self.files.get(path)[begin:end].decode("utf8", "replace").split())

    def add(self, node: Node, kind: str, change: str, parts: list[Node] | None = None, watch: bool = False) -> None:
        if node.begin < 0 or any(part.begin < node.begin or part.end > node.end for part in parts or []):
            return
        if waits(node):
            return
        path = str(pathlib.Path(node.path).relative_to(self.root))
        ranges = tuple((part.begin, part.end) for part in parts or [])
        key = (path, node.begin, node.end, change)
        if key not in self.sites:
            self.sites[key] = Site(path, self.files.line(node.path, node.begin), node.begin, node.end, kind, change, ranges,
                                   watch)

    # -- walking ------------------------------------------------------------------------------------------------------

    def function(self, node: Node) -> None:
        name = re.search(r"(?:^| )(~?\w+) '", node.rest)
        if re.search(r"' (static )?(inline )?constexpr|consteval", node.rest) or \
                (name and DULL_FUNCTIONS.match(name.group(1))):
            return
        for child in node.children:
            self.walk(child)

    def walk(self, node: Node) -> None:
        kind = node.kind
        if kind in {"CXXThrowExpr", "TemplateArgument", "UserDefinedLiteral", "ConstantExpr", "StaticAssertDecl",
                    "EnumDecl", "CXXDefaultArgExpr", "CXXDefaultInitExpr", "FieldDecl", "ParmVarDecl"}:
            return
        if kind == "VarDecl" and re.search(r"' (static )?constexpr|' static| constexpr", node.rest):
            return
        if kind in {"CXXMethodDecl", "FunctionDecl", "CXXConstructorDecl"}:
            if " implicit" not in node.rest:
                self.function(node)
            return
        if kind == "CXXForRangeStmt":
            for child in (node.children[1], node.children[-1]):
                self.walk(child)
            self.statement(node.children[-1])
            return
        if kind == "CoroutineBodyStmt" or kind in {"CoawaitExpr", "CoyieldExpr", "CoreturnStmt"}:
            for child in node.children[:1]:
                self.walk(child)
            return
        if "basic_string<" in node.type and kind in CALLS or kind in CALLS and callee(node) in DULL_CALLS:
            return
        self.expression(node)
        self.control(node)
        for child in node.children:
            self.walk(child)

    # -- statements ---------------------------------------------------------------------------------------------------

    def control(self, node: Node) -> None:
        kind, children = node.kind, node.children
        if kind == "CompoundStmt":
            for child in children:
                self.statement(child)
        elif kind == "IfStmt":
            if "has_var" not in node.rest and "constexpr" not in node.rest:
                at = 1 if "has_init" in node.rest else 0
                if at < len(children):
                    self.condition(children[at])
            for child in children[1:]:
                self.statement(child)
        elif kind == "WhileStmt" and len(children) == 2:
            self.condition(children[0])
            self.statement(children[1])
        elif kind == "ForStmt" and children:
            self.statement(children[-1])
        elif kind == "ConditionalOperator":
            self.condition(children[0])

    def condition(self, node: Node) -> None:
        inner = node
        while inner.kind in WRAPPERS and inner.children:
            inner = inner.children[0]
        if inner.kind == "CXXBoolLiteralExpr" or node.begin < 0:
            return
        if inner.kind in {"BinaryOperator", "CXXRewrittenBinaryOperator", "CXXOperatorCallExpr"} and \
                (self.compared(inner) or inner.operator in {"&&", "||"}):
            return  # has changes of its own
        self.add(node, "negate", f"condition `{self.text(node.path, node.begin, node.end)}` negated", [node])

    def statement(self, node: Node) -> None:
        inner = node
        while inner.kind in {"ExprWithCleanups", "CXXBindTemporaryExpr", "MaterializeTemporaryExpr"} and inner.children:
            inner = inner.children[0]
        kind = inner.kind
        if node.begin < 0:
            return
        shown = self.text(node.path, node.begin, node.end)
        shown = shown if len(shown) < 90 else shown[:87] + "..."
        if kind in {"BreakStmt", "ContinueStmt"}:
            rest = self.files.get(node.path)[node.end:node.end + 200].lstrip()
            if rest.startswith(b";") and not rest[1:].lstrip().startswith((b"else", b"}  // else")):
                self.add(node, "jump", f"`{shown}` left out", [])
            return
        gone = kind in CALLS and callee(inner) not in DULL_CALLS or kind == "CompoundAssignOperator" or \
            kind == "BinaryOperator" and inner.operator == "=" or \
            kind == "UnaryOperator" and ("'++'" in inner.rest or "'--'" in inner.rest)
        if kind == "CXXOperatorCallExpr" and inner.operator not in {"=", "+=", "-=", "++", "--", "()", "*=", "|=", "<<"}:
            gone = False
        if not gone or kind in CALLS and "basic_string" in inner.type:
            return
        if kind == "BinaryOperator" and len(inner.children) == 2 and all(map(pure, inner.children)):
            self.add(node, "assign", f"`{shown}` left out", [node, *inner.children], True)
        else:
            self.add(node, "delete", f"`{shown}` left out", [node])

    # -- expressions --------------------------------------------------------------------------------------------------

    def compared(self, node: Node) -> tuple[str, Node, Node] | None:
        """Operator and operands of a comparison, however clang stores it."""
        if node.kind == "BinaryOperator" and node.operator in OPPOSITE and len(node.children) == 2:
            left, right = node.children
            return (node.operator, left, right) if self.between(node, left, right) == node.operator else None
        inner = node
        if node.kind == "CXXRewrittenBinaryOperator":
            while inner.kind in {"CXXRewrittenBinaryOperator", "UnaryOperator"} and inner.children:
                inner = inner.children[0]
            nested = [child for child in inner.children if child.kind == "CXXOperatorCallExpr" and child.operator == "<=>"]
            inner = nested[0] if nested else inner
        if inner.kind != "CXXOperatorCallExpr" or len(inner.children) != 3:
            return None
        if node.kind == "CXXOperatorCallExpr" and node.operator not in OPPOSITE:
            return None
        left, right = sorted(inner.children[1:], key=lambda part: part.begin)
        between = self.between(node, left, right)
        return (between, left, right) if between in OPPOSITE else None

    def between(self, node: Node, left: Node, right: Node) -> str:
        """What stands between two operands: their operator, unless the code was written by the compiler."""
        if left.begin < 0 or left.end > right.begin:
            return ""
        return re.sub(rb"//[^\n]*|/\*.*?\*/", b"", self.files.get(node.path)[left.end:right.begin]).strip().decode()

    def expression(self, node: Node) -> None:
        kind = node.kind
        if node.begin < 0:
            return
        found = self.compared(node)
        if found:
            sign, left, right = found
            watch = pure(left) and pure(right)
            shown = self.text(node.path, node.begin, node.end)
            if sign in BOUNDARY:
                self.add(node, f"binary {sign} {BOUNDARY[sign]}", f"`{shown}`: {sign} to {BOUNDARY[sign]}", [left, right], watch)
            self.add(node, f"binary {sign} {OPPOSITE[sign]}", f"`{shown}`: {sign} to {OPPOSITE[sign]}", [left, right])
            return
        shown = self.text(node.path, node.begin, node.end)
        if kind == "BinaryOperator" and len(node.children) == 2:
            self.binary(node, shown)
        elif kind == "CompoundAssignOperator" and len(node.children) == 2 and NUMBERS.match(node.type):
            sign = node.operator
            if sign in COMPOUND:
                self.add(node, f"compound {sign} {COMPOUND[sign]}", f"`{shown}`: {sign} to {COMPOUND[sign]}", node.children)
                self.add(node, f"compound {sign} =", f"`{shown}`: {sign} to =", node.children)
        elif kind == "UnaryOperator" and NUMBERS.match(node.type) and len(node.children) == 1:
            if node.operator in {"++", "--"}:
                other = {"++": "--", "--": "++"}[node.operator]
                where = "prefix" if "prefix" in node.rest else "postfix"
                self.add(node, f"{where} {node.operator} {other}", f"`{shown}`: {node.operator} to {other}", node.children)
            elif node.operator == "!":
                self.add(node, "not", f"`{shown}`: ! left out", node.children)
            elif node.operator == "-" and node.children[0].kind not in {"IntegerLiteral", "FloatingLiteral"}:
                self.add(node, "minus", f"`{shown}`: - left out", node.children)
        elif kind == "IntegerLiteral" and NUMBERS.match(node.type) and shown[:1].isdigit():
            self.add(node, "more", f"{shown} to {shown} + 1{self.around(node)}", [])
        elif kind == "FloatingLiteral" and shown[:1].isdigit():
            change = f"{shown} + 1.0" if re.fullmatch(r"0*\.?0*", shown) else f"2 * {shown}"
            self.add(node, "literal " + change, f"{shown} to {change}{self.around(node)}", [])
        elif kind == "CXXBoolLiteralExpr" and shown in {"true", "false"}:
            other = {"true": "false", "false": "true"}[shown]
            self.add(node, "literal " + other, f"{shown} to {other}{self.around(node)}", [])
        elif kind == "CallExpr" and callee(node) in {"min", "max"} and shown.startswith(("std::min", "std::max")):
            other = {"min": "max", "max": "min"}[callee(node)]
            head = Node("", "", node.begin, node.begin + len("std::min"))
            tail = Node("", "", node.begin + len("std::min"), node.end)
            watch = all(pure(child) for child in node.children[1:])
            self.add(node, f"call std::{other}", f"`{shown}`: {callee(node)} to {other}", [head, tail], watch)

    def around(self, node: Node) -> str:
        """The line of a literal, which alone tells little."""
        text = self.files.get(node.path)
        begin, end = text.rfind(b"\n", 0, node.begin) + 1, text.find(b"\n", node.end)
        return f" in `{' '.join(text[begin:end].decode('utf8', 'replace').split())}`"

    def binary(self, node: Node, shown: str) -> None:
        sign = node.operator
        left, right = node.children
        if self.between(node, left, right) != sign:
            return
        both = pure(left) and pure(right)
        if sign in ARITHMETIC and NUMBERS.match(node.type):
            other = ARITHMETIC[sign]
            whole = sign == "*" and node.type not in {"double", "float"} or sign == "%"  # might divide by zero
            self.add(node, f"binary {sign} {other}", f"`{shown}`: {sign} to {other}", [left, right], both and not whole)
            if sign in "+-":
                self.add(node, "left " + sign, f"`{shown}`: only `{self.text(node.path, left.begin, left.end)}`", [left, right],
                         both)
        elif sign in {"&&", "||"}:
            other = {"&&": "||", "||": "&&"}[sign]
            self.add(node, f"binary {sign} {other}", f"`{shown}`: {sign} to {other}", [left, right])
            for i, part in enumerate(node.children):
                self.add(node, f"{('left', 'right')[i]} {sign}",
                         f"`{shown}`: only `{self.text(node.path, part.begin, part.end)}`", [left, right], both and i == 0)


def find_sites(root: pathlib.Path, unit: str, flags: list[str], pattern: str, cache: pathlib.Path, key: str) -> list[Site]:
    """The sites of the files of a unit whose path matches `pattern`; `key` stands for what its headers hold."""
    sources = [unit, *re.findall(r'#include "(/[^"]+\.cpp)"', pathlib.Path(unit).read_text(encoding="utf8"))]
    digest = hashlib.sha256(f"{VERSION}{pattern}{flags}{key}".encode())
    for source in sources:
        digest.update(source.encode() + pathlib.Path(source).read_bytes())
    stored = cache / f"{digest.hexdigest()[:24]}.json"
    if stored.exists():
        return [Site(**{**row, "parts": tuple(tuple(part) for part in row["parts"])}) for row in json.loads(stored.read_text())]
    query = cache / f"{digest.hexdigest()[:24]}.query"
    query.write_text(QUERY.format(pattern=pattern))
    done = subprocess.run(["clang-query", "-f", str(query), unit, "--", *flags, "-w"], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise RuntimeError(f"clang-query {unit}: {done.stderr[-1500:]}")
    files = Files()
    finder = Finder(str(root), files)
    for node in Tree(files, re.compile(pattern)).roots(done.stdout):
        finder.function(node)
    sites = sorted(finder.sites.values())
    stored.write_text(json.dumps([dataclasses.asdict(site) for site in sites]))
    query.unlink()
    return sites
