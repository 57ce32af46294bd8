"""A secret is found wherever it stands in a long text, which is read in pieces."""

import base64
import random
import string

import pytest
from secret_forms import forms

from llmeval_sdk.exporters._secrets import LONGEST
from llmeval_sdk.exporters.redaction import Redactor
from llmeval_sdk.process.pieces import MAX_SEARCHED, OVERLAP


LINE = "The rent is due on the first of the month, and so is the heating.\n"
RNG = random.Random(7)
ALNUM = string.ascii_letters + string.digits
SECRETS, EVERYTHING = Redactor(("api_key", "jwt")), Redactor(("all",))


def letters(count, alphabet=ALNUM):
    return "".join(RNG.choices(alphabet, k=count))


def key(lines, first="-----BEGIN PRIVATE KEY-----\n", last="\n-----END PRIVATE KEY-----"):
    return first + "\n".join(letters(64, ALNUM + "+/") for _ in range(lines)) + last


LONG_FORMS = {
    "pem": key(25),
    "pem with headers": key(
        12, "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A\n\n"
    ),
    "pem in json": key(5).replace("\n", "\\n"),
    "pem escaped twice": key(5).replace("\n", "\\\\r\\\\n"),
    "pem cut off": key(6, last=""),
    "pgp": key(
        5, "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n", "\n-----END PGP PRIVATE KEY BLOCK-----"
    ),
    "web token": f"eyJ{letters(900)}.eyJ{letters(3_000)}.{letters(86)}",
    "card": "4111 1111 1111 1111",
    "iban": "DE89 3704 0044 0532 0130 00",
    "email": "somebody.else@mail.example.com",
    "element": "<password>hunter2hunter2</password>",
    "cookie": "Cookie: sid=" + letters(300) + "; theme=dark",
    "pair": '{"name": "DB_PASSWORD", "value": "s3cr3tpassw0rd"}',
}
FORMS = {**{name: text for name, (text, _) in forms(3).items()}, **LONG_FORMS}
CUTS = {MAX_SEARCHED: 150, MAX_SEARCHED - OVERLAP: 8, MAX_SEARCHED - LONGEST: 8}
"""Where pieces begin or end, from either end of the text, with the offsets that are tried there."""


def around(form, at):
    """A text of two pieces with a form at a place."""
    blanks = (LINE * (2 * MAX_SEARCHED // len(LINE) + 1))[: 2 * MAX_SEARCHED]
    before, after = blanks[: at - 1], blanks[at + len(form) + 1 :]
    return before, f" {form} ", after


@pytest.mark.parametrize("name", FORMS)
def test_a_secret_at_a_cut_is_taken_out_as_anywhere_else(name):
    """Each form at each offset before, at and behind each place where a piece ends or begins."""
    form = FORMS[name]
    redactor = EVERYTHING if name in ("card", "iban", "email") else SECRETS
    expected = redactor.detect(f"{LINE} {form} {LINE}").removeprefix(LINE).removesuffix(LINE)
    assert expected != f" {form} "
    for cut, most in CUTS.items():
        for at in range(cut - len(form) - 2, cut + 3, len(form) // most + 1):
            before, middle, after = around(form, at)
            found = redactor.detect(before + middle + after)
            assert found == before + expected + after, at - cut


LONG = 100_000
LONGER = {
    "token": "sk-" + letters(LONG),
    "token of parts": f"SG.{letters(LONG)}.{letters(43)}",
    "token of a number": f"APP_USR-{letters(LONG, '0123456789')}-{letters(40)}",
    "token of two parts": f"AstraCS:{letters(LONG)}:{letters(64, '0123456789abcdef')}",
    "token in a path": f"/v1/sk.eyJ{letters(LONG // 2)}.{letters(LONG // 2)}",
    "web token": f"eyJ{letters(LONG)}.eyJ{letters(LONG)}.{letters(LONG)}",
    "web token with a long end": f"eyJ{letters(40)}.eyJ{letters(40)}.{letters(LONG)}",
    "bearer": f"Authorization: Bearer {letters(LONG)}",
    "pem": key(2_000),
    "pem in json": key(2_000).replace("\n", "\\n"),
    "pem cut off": key(2_000, last=""),
    "password": f"password={letters(LONG)}",
    "quoted password": f'"password": "{letters(40)} {letters(LONG)} {letters(40)}"',
    "address": f"postgres://admin:{letters(LONG)}@db.internal:5432/x",
    "cookie": f"Cookie: sid={letters(LONG)}; theme={letters(40)}",
}


@pytest.mark.parametrize("name", LONGER)
@pytest.mark.parametrize("place", [0, 5, MAX_SEARCHED - LONGEST, MAX_SEARCHED - 1, MAX_SEARCHED])
def test_a_secret_that_is_longer_than_a_piece_is_closed_whole(name, place):
    """No part of it is left, and the lines before and behind it stay."""
    before = (LINE * (place // len(LINE) + 1))[:place]
    form = LONGER[name]
    text = f"{before}\n{form}\n{LINE}"
    assert SECRETS.may_concern(text)
    found = SECRETS.detect(text)
    parts = [form[at : at + 30] for at in range(200, len(form) - 50, 997)]
    assert not [part for part in parts if part in found]
    assert found.startswith(before)
    assert found.endswith(LINE) or "cut off" in name


def test_data_that_are_kept_are_no_token():
    """A word of base64 that is longer than a piece begins like one now and then."""
    data = base64.b64encode(random.Random(7).randbytes(90_000)).decode()
    text = f"data:application/pdf;base64,{data}/SG/eyJ/t1/cio/pat/AKIA/{data}"
    assert SECRETS.detect(text) == text
