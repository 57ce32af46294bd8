"""The quick look never says no where a detector finds something, and costs little beside it."""

import random
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from secret_forms import forms

from llmeval_sdk.exporters import _secrets as secrets
from llmeval_sdk.exporters.redaction import Redactor
from llmeval_sdk.process.patterns import _sre
from llmeval_sdk.process.pieces import MAX_SEARCHED, OVERLAP


NAMES = tuple(forms(0))
PROSE = "The rent is due on the first of the month, and so is the heating. "
SIGNS = (
    "",
    " ",
    "\n",
    '"',
    "'",
    "(",
    "=",
    "/",
    "+",
    "-",
    ".",
    "\\n",
    "\\u0022",
    "%20",
    "\x1b[1;31m",
    "é",
)
RANDOM = random.Random(5)


def found(text):
    """What the detectors find in a text, of which they read everything."""
    behind = f"\n{text}"
    return [
        *secrets._tokens(behind),
        *secrets._private_keys(behind),
        *secrets._assigned(behind),
        *secrets._assigned(secrets._plain(behind)),
    ]


def token(prefix, pattern):
    """A text of a prefix and of what its pattern wants, as short as it may be."""
    number = "7:" if pattern.startswith("(?<=[0-9]:") else ""
    return number + prefix + "".join(_parts(_sre.parse(pattern)))


def _parts(tree):
    for kind, argument in tree:
        name = str(kind)
        if name == "LITERAL":
            yield chr(argument)
        elif name == "IN":
            yield RANDOM.choice([c for c in string.printable[:95] if _is_in(argument, ord(c))])
        elif name in ("MAX_REPEAT", "MIN_REPEAT"):
            for _ in range(argument[0] + RANDOM.choice((0, 0, min(2, argument[1] - argument[0])))):
                yield from _parts(argument[2])
        elif name == "SUBPATTERN":
            yield from _parts(argument[3])
        elif name == "BRANCH":
            yield from _parts(RANDOM.choice(argument[1]))


def _is_in(items, code):
    return any(
        item == code if str(kind) == "LITERAL" else item[0] <= code <= item[1]
        for kind, item in items
    )


@pytest.mark.parametrize("index", range(len(secrets.TOKENS)))
def test_no_token_of_the_least_length_is_passed_over(index):
    """Behind every sign that may stand before one, alone and in prose."""
    prefix, pattern = secrets.TOKENS[index]
    seen = 0
    for sign in SIGNS:
        whole = f"{sign}{token(prefix, pattern)}"
        for text in (whole, f"{PROSE}{whole}, {PROSE}"):
            if next(secrets._tokens(f"\n{text}"), None):
                seen += 1
                assert secrets.may_have_secrets(text), text
    assert seen


@pytest.mark.parametrize("marked", secrets.MARKED)
def test_no_token_that_is_known_by_its_middle_is_passed_over(marked):
    """It may begin like any word."""
    text = f"{PROSE}{token('', marked[1])} {PROSE}"
    assert secrets.may_have_secrets(text) == bool([*secrets._tokens(f"\n{text}")]) is True


@pytest.mark.parametrize("name", NAMES[::4])
def test_a_secret_at_a_cut_is_seen_as_anywhere_else(name):
    """Where one window of the text ends and the next begins."""
    form = forms(1)[name][0]
    for cut in (MAX_SEARCHED, MAX_SEARCHED - OVERLAP):
        for at in range(cut - min(len(form), OVERLAP) - 2, cut + 3, len(form) // 4 + 1):
            text = f"{(PROSE * 1_100)[:at]} {form} {PROSE * 40}"
            if found(text):
                assert secrets.may_have_secrets(text), at - cut


PIECES = (
    "password", "Passwort", "token", "authorization", "Cookie", "api_key", "access-key", " is", ":", "=",
    " : ", " = ", '": "', "  ::= ", "%3D", "%253a", "\\u003d", "\\u0022", "&quot;", "&lt;", '"', "'", "\\",
    "value", '"name": "DB_PASSWORD", ', "name: pwd\n", "\\n", "\n\n", "</", "<password>", "</password>", "<\\/",
    '<entry name="secret">', "</entry>", "<key>pwd</key>", "</string>", "\x1b[1m", "a", "a1b2c3d4", "hunter2",
    "letmein", "://", ":\\/\\/", "%3A//", "u:", "u%3Ap", "@", "@host", "Bearer ", "BEARER%20", "z" * 300, PROSE,
    "-----BEGIN PRIVATE KEY-----\n", "Q" * 64, "=" * 40, "-" * 40, "/", "+", ".", "sk-", "gh" + "p_", "AK" + "IA",
    "eyJ" + "hbGciOi", "0123456789abcdef" * 2, "QWERTYUIOP234567", "é", "\ud800", "\x00", "access" + "_token$",
)  # fmt: skip


@settings(max_examples=800, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=16))
def test_the_look_agrees_with_everything_the_detectors_read(pieces):
    """Whatever any pattern finds in a text, or in it with its escapes undone, is seen before."""
    text = "".join(pieces)
    if found(text):
        assert secrets.may_have_secrets(text)


WITHOUT_FIGURES = (
    "sk-abcdefghijklmnopqrstuvwxyz", "sk-" + "-" * 1_100 + "1", "sk-JJJJJJJJJJJJJJJJJJJJ",
    "eyJ" + "abcdefgh.abcdefgh.", "eyJ" + "-_abcdefgh.-_abcdefgh.abc", "AK" + "IAABCDEFGHIJKLMNOP",
    "bearer abcdefghijklmnopqrst", "BEARER%20a.b-c~d/e+f.g-h~i/j1",
    "-----BEGIN PRIVATE KEY-----\nabcdefghijklmnopqrstuvwxyz",
)  # fmt: skip
"""Tokens that have a figure late, only letters, or only the one of a web token."""
SHAPED = (
    *(token(*shape) for shape in secrets.TOKENS),
    *(token("", marked[1]) for marked in secrets.MARKED),
)
HOSTILE = (*PIECES, *WITHOUT_FIGURES, "J", "0", "1 ", "_" * 30, "-1" * 12, "é1", "x" * 17, "=" * 18)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(HOSTILE) | st.sampled_from(SHAPED) | st.text(max_size=12),
        max_size=8,
    ),
    st.sampled_from((0, 0, 0, MAX_SEARCHED, MAX_SEARCHED - OVERLAP)),
    st.integers(0, 60),
)
def test_no_text_that_a_detector_would_change_has_no_hint(parts, cut, before):
    """Tokens of every shape among random, Unicode and hostile texts, also where a window ends."""
    redactor = Redactor(["api_key", "jwt"])
    text = f"{(PROSE * 1_100)[: max(cut - before, 0)]} {''.join(parts)}"
    if redactor.detect(text) != text:
        assert redactor._may_have(text)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(PIECES), max_size=12), st.lists(st.sampled_from(PIECES), max_size=12)
)
def test_texts_that_are_looked_at_together_hide_nothing(first, second):
    """The short texts of a record are joined for the look."""
    redactor = Redactor(["api_key", "jwt"])
    value = ["".join(first), {"k": ("".join(second),)}]
    if redactor.detect(value) != value:
        assert redactor.may_concern(value)


def test_a_text_that_was_found_clean_is_not_read_again(monkeypatch):
    """Passages stand in several spans of a request, and in many requests."""
    redactor = Redactor(["api_key", "jwt"])
    passages = [f"{number}. {PROSE * 8}" for number in range(10)]
    read = []
    look = redactor._hints[0]
    redactor._hints = (lambda text: read.append(text) or look(text),)
    assert not redactor.may_concern([{"content": passage} for passage in passages])
    assert len([text for text in read if len(text) > 300]) == 10
    read.clear()
    again = [(passage[:100] + passage[100:]) for passage in passages]  # equal, not the same objects
    assert not redactor.may_concern({"context": again, "question": "Why?"})
    assert [text for text in read if len(text) > 300] == []


def test_a_secret_is_found_again_and_again():
    """Only what is clean is remembered, by each redactor for its own detectors."""
    mail = f"{PROSE * 8} write to somebody@example.com"
    secret = f"{PROSE * 8} {forms(1)['openai'][0]}"
    keys, mails = Redactor(["api_key"]), Redactor(["email"])
    for _ in range(3):
        assert keys.may_concern([secret])
        assert keys.detect(secret) != secret
        assert not keys.may_concern([mail])
        assert keys.detect(mail) == mail
        assert mails.may_concern([mail])
        assert mails.detect(mail) != mail


def test_what_is_remembered_has_a_bound_and_no_text():
    """However many texts there are."""
    redactor = Redactor(["api_key"])
    most = redactor._clean.MOST = 100
    for number in range(1_000):
        redactor.may_concern(f"{number}. {PROSE * 8}")
    kept = (redactor._clean._lately, redactor._clean._before)
    assert sum(map(len, kept)) <= 2 * most
    assert all(type(key) is int for keys in kept for key in keys)
    assert f"999. {PROSE * 8}" in redactor._clean
    assert f"1. {PROSE * 8}" not in redactor._clean
