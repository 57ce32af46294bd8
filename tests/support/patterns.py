"""Every pattern of the package, and what its parse tree says about texts that are made to be slow."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import llmeval_sdk


_PREFIX = "re._" if sys.version_info >= (3, 11) else "sre_"
_PARSER = "parser" if sys.version_info >= (3, 11) else "parse"
_COMPILER = "compiler" if sys.version_info >= (3, 11) else "compile"
sre_parse: Any = importlib.import_module(f"{_PREFIX}{_PARSER}")
sre_compile: Any = importlib.import_module(f"{_PREFIX}{_COMPILER}")
"""What `re` itself reads and compiles patterns with."""

PACKAGE = Path(llmeval_sdk.__file__).parent
_FUNCTIONS = {"compile": 1, "match": 2, "fullmatch": 2, "search": 2, "findall": 2, "finditer": 2,
              "split": 3, "sub": 4, "subn": 4}  # fmt: skip
"""Functions of `re` that take a pattern, with the place of their flags."""


class Site(NamedTuple):
    """A call that makes a pattern."""

    place: str
    """The file and the name of the function, class or variable around it."""
    line: int
    patterns: tuple[re.Pattern[Any], ...]
    """None where the pattern is made of what only a running function knows."""
    methods: frozenset[str]
    """The methods of it that are called; ``finditer`` stands for all that search."""


def sites(known: Mapping[str, Iterable[Mapping[str, object]]]) -> Iterator[Site]:
    """Yield every call in the package that makes a pattern.

    ``known`` has examples of the local names of which a function makes one, by the place.
    """
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text("utf-8")
        if not re.search(r"^import re$", source, re.MULTILINE):
            continue
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        module = ".".join(part for part in parts if part != "__init__")
        namespace = vars(importlib.import_module(module))
        tree = ast.parse(source)
        uses = _uses(tree)
        for site in _sites_in(tree, str(path.relative_to(PACKAGE)), "", (namespace, known)):
            name = site.place.partition(":")[2]
            called = frozenset(uses.get(name, ())) - {"pattern"}
            yield site._replace(methods=called) if called and called <= _ANCHORED else site


_ANCHORED = frozenset(("match", "fullmatch"))
_SEARCHED = frozenset(("finditer",))


def _uses(tree: ast.AST) -> dict[str, set[str]]:
    """Return what each name of a module is used for: methods, or nothing known."""
    uses: dict[str, set[str]] = {}
    held: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            uses.setdefault(node.value.id, set()).add(node.attr)
            held.add(id(node.value))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in held:
            uses.setdefault(node.id, set()).add("")
    return uses


_Names = tuple[dict[str, Any], Mapping[str, Iterable[Mapping[str, object]]]]


def _sites_in(node: ast.AST, file: str, around: str, names: _Names) -> Iterator[Site]:
    called = node.func if isinstance(node, ast.Call) else None
    for child in ast.iter_child_nodes(node):
        name = around
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = child.name
        elif isinstance(child, (ast.Assign, ast.AnnAssign)) and not around:
            target = child.targets[0] if isinstance(child, ast.Assign) else child.target
            name = ast.unparse(target)
        if isinstance(child, ast.Call) and _makes_pattern(child.func):
            own_method = frozenset((child.func.attr,))  # type: ignore[attr-defined]
            methods = own_method if own_method <= _ANCHORED else _SEARCHED
            namespace, known = names
            examples = known.get(f"{file}:{name}", ({},))
            patterns = tuple(p for own in examples for p in _evaluated(child, {**namespace, **own}))
            yield Site(f"{file}:{name}", child.lineno, patterns, methods)
        elif child is not called and _makes_pattern(child):  # such as map(re.compile, …)
            yield Site(f"{file}:{name}", child.lineno, (), _SEARCHED)
        yield from _sites_in(child, file, name, names)


def _makes_pattern(function: ast.AST) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "re"
        and function.attr in _FUNCTIONS
    )


def _evaluated(call: ast.Call, namespace: dict[str, Any]) -> Iterator[re.Pattern[Any]]:
    assert isinstance(call.func, ast.Attribute)
    at = _FUNCTIONS[call.func.attr]
    flags = call.args[at] if len(call.args) > at else ast.Constant(0)
    flags = next((word.value for word in call.keywords if word.arg == "flags"), flags)
    made = ast.Call(ast.parse("re.compile", mode="eval").body, [call.args[0], flags], [])
    expression = ast.fix_missing_locations(ast.Expression(made))
    try:
        yield eval(compile(expression, "<pattern>", "eval"), namespace)
    except (NameError, TypeError):
        return


# -- what a parse tree says ------------------------------------------------------------------------

_ALPHABET = [
    *map(chr, range(128)),
    *"\u00a0\u00b0\u00e9\u00df\u0301\u2003\u3000\u6771\u0e20\uff1a\uac00\u0663\U0001f600",
]
_MAX_TEXTS = 40
_WIDE = 100
"""Choices of a repeat that make its product with another one long."""


class Repeat(NamedTuple):
    """A part of a pattern that may match more or fewer characters."""

    choices: int
    first: frozenset[str]
    """The characters with which another turn of it may begin."""
    prefix: str = ""
    """The shortest text that leads to it."""


class _Part(NamedTuple):
    """What may stand at either end of a part of a pattern."""

    is_optional: bool
    first: frozenset[str]
    heads: tuple[Repeat, ...] = ()
    tails: tuple[Repeat, ...] = ()


class Reading:
    """The repeats of one pattern, and those that stand side by side and share characters."""

    def __init__(self, pattern: re.Pattern[Any]) -> None:
        self.is_bytes = isinstance(pattern.pattern, bytes)
        self._parsed = sre_parse.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
        self._compiled: dict[str, frozenset[str]] = {}
        self.repeats: list[Repeat] = []
        self.shared: list[tuple[Repeat, Repeat]] = []
        self._groups: dict[int, Any] = {}
        self._sequence(self._parsed, "")
        self.examples = tuple(dict.fromkeys(islice(self._examples(self._parsed), 60)))

    def _characters(self, node: tuple[Any, Any]) -> frozenset[str]:
        key = repr(node)
        if key not in self._compiled:
            part = sre_parse.SubPattern(self._parsed.state, [node])
            fits = sre_compile.compile(part, self._parsed.state.flags).fullmatch
            alphabet = [c for c in _ALPHABET if not self.is_bytes or ord(c) < 256]
            texts = ((c, c.encode("latin-1") if self.is_bytes else c) for c in alphabet)
            self._compiled[key] = frozenset(c for c, text in texts if fits(text))
        return self._compiled[key]

    def _sequence(self, sequence: Any, before: str) -> _Part:
        parts = []
        for node in sequence:
            parts.append(self._node(node, before))
            before += next(iter(self._examples([node])), "")
        heads: list[Repeat] = []
        first: frozenset[str] = frozenset()
        for part in parts:
            heads += part.heads
            first |= part.first
            if not part.is_optional:
                break
        tails: list[Repeat] = []
        for part in parts:
            self._compare(tails, part.heads)
            if not part.is_optional:
                narrowed = (tail._replace(first=tail.first & part.first) for tail in tails)
                tails = [tail for tail in narrowed if tail.first]
            tails += part.tails
        return _Part(all(part.is_optional for part in parts), first, tuple(heads), tuple(tails))

    def _compare(self, tails: Any, heads: Any) -> None:
        for left in tails:
            for right in heads:
                if left.first & right.first and min(left.choices, right.choices) > _WIDE:
                    self.shared.append((left, right))

    def _node(self, node: tuple[Any, Any], before: str) -> _Part:
        kind, value = node
        name = str(kind)
        if name in ("LITERAL", "NOT_LITERAL", "IN", "ANY", "CATEGORY"):
            return _Part(False, self._characters(node))
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, body = value
            inner = self._sequence(body, before)
            choices = min(int(most), 1 << 20) - int(least)
            if int(most) > 1:
                self._compare(inner.tails, inner.heads)
            own: tuple[Repeat, ...] = ()
            if choices and int(most) > 1:
                own = (Repeat(choices, inner.first, before),)
                self.repeats += own
            is_optional = least == 0 or inner.is_optional
            return _Part(is_optional, inner.first, own + inner.heads, own + inner.tails)
        if name == "SUBPATTERN":
            self._groups[value[0]] = value[-1]
            return self._sequence(value[-1], before)
        if name == "ATOMIC_GROUP":
            return self._sequence(value, before)
        if name == "BRANCH":
            parts = [self._sequence(branch, before) for branch in value[1]]
            return _Part(
                any(part.is_optional for part in parts),
                frozenset().union(*(part.first for part in parts)),
                tuple(head for part in parts for head in part.heads),
                tuple(tail for part in parts for tail in part.tails),
            )
        if name in ("ASSERT", "ASSERT_NOT"):
            self._sequence(value[1], before if value[0] > 0 else "")
            return _Part(True, frozenset())
        if name == "GROUPREF_EXISTS":
            parts = [self._sequence(branch, before) for branch in value[1:] if branch]
            return _Part(True, frozenset().union(*(part.first for part in parts)))
        if name == "GROUPREF":
            return _Part(False, frozenset())
        return _Part(True, frozenset())

    def _examples(self, sequence: Any) -> Iterator[str]:
        """Yield short texts that a part may match; not every one does."""
        texts = [""]
        for kind, value in sequence:
            name = str(kind)
            pieces: list[str] = [""]
            if name in ("LITERAL", "NOT_LITERAL", "IN", "ANY", "CATEGORY"):
                pieces = sorted(self._characters((kind, value)), key=_plainness)[:1]
                if name == "LITERAL":
                    pieces = [chr(value)]
            elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
                pieces = [piece * max(int(value[0]), 0) for piece in self._examples(value[2])]
            elif name == "SUBPATTERN":
                pieces = list(self._examples(value[-1]))
            elif name == "ATOMIC_GROUP":
                pieces = list(self._examples(value))
            elif name == "BRANCH":
                pieces = [piece for branch in value[1] for piece in self._examples(branch)]
            elif name == "GROUPREF":
                pieces = list(self._examples(self._groups.get(value, [])))
            pieces = pieces or [""]
            texts = [texts[n % len(texts)] + pieces[n % len(pieces)]
                     for n in range(min(max(len(texts), len(pieces)), 60))]  # fmt: skip
        yield from dict.fromkeys(texts)

    def hostile(self, length: int) -> Iterator[Any]:
        """Yield texts of the pattern's own characters that would be slow if any text was."""
        pumped = {}
        for repeat in self.repeats:
            if repeat.choices <= _WIDE:
                continue
            others = [other.first for other in self.repeats if other is not repeat]
            signs = sorted(
                repeat.first,
                key=lambda sign: (-sum(sign in other for other in others), _plainness(sign)),
            )
            for sign in {*signs[:2], *[s for s in " \t\n0a" if s in repeat.first]}:
                for prefix in ("", repeat.prefix):
                    pumped[prefix, sign] = None
                if repeat.prefix:
                    pumped["", repeat.prefix + sign] = None
                    pumped["", repeat.prefix + 30 * sign] = None
        for example in self.examples[:6]:
            for piece in filter(None, (example, example[:-1])):
                pumped["", piece] = None
        for prefix, piece in [*pumped][:: len(pumped) // _MAX_TEXTS + 1]:
            text = prefix + (piece * (length // len(piece) + 1))[:length]
            for end in ("", "\n!"):
                yield (text + end).encode("latin-1", "replace") if self.is_bytes else text + end


def _plainness(sign: str) -> tuple[bool, int]:
    return not sign.isalnum(), ord(sign)
