"""Pieces of which texts are made that take long to read for whoever goes back over them.

The tests count the calls that such texts cost, and `benchmarks.growth` measures their time.
"""

from llmeval_sdk.text.amounts import Tokens, amounts, dates, times
from llmeval_sdk.text.folding import words


PIECES = (
    "a", "1", "1 ", "sk-", "sk- ", "-sk-a", "eyJ", "-eyJ", "eyJaaaaaaaa.", "a@", "@", "a.", "a@b.",
    "a@b.c", "a a a@", "4111 ", "4111111111111112 ", "4111 1111 1111 1112 ", "AA11 ", "DE89 37",
    "DE89370400440532013001 ", "+1 ", "+1-2-3-4-5-6-7-8-9 ", "(555) 123-", "123-456-", "Bearer a",
    "bearer abcdefghijklmnopqr1 ", "-----BEGIN PRIVATE KEY-----", "ghp_", "AKIA", "+", "_", " ",
)  # fmt: skip
"""Beginnings and parts of what the detectors look for."""

FORMS = (
    "key:", "password=", "password: a1b2c3d4 ", "://", "://a:b@ ", '"password":"', "token=abc12345(",
        "Cookie: a=b; ", "authorization: digest a=b, ", "://a:b/", "://a@b:c#", "password%3D", "<password>",
        "\\u0022password\\u0022:", "</password>", '<entry key="password">', "-us1", "&quot;password&quot;:",
        "\x1b[1m", "password: is: ", "-H 'Cookie: a=\"b; ",
)  # fmt: skip
"""Names of secrets, addresses and the forms in which they are written."""

PATTERNS = {
    "figures": "1",
    "spaced figures": "1 ",
    "groups of three": "111 ",
    "commas": "1,",
    "dots": "1.1.",
    "slashes": "1/",
    "dates": "1/1/1 ",
    "months": "may 1 of ",
    "links": "of ",
    "colons": "1:11:",
    "brackets": "((",
    "dollars": "$1m ",
    "number words": "twenty hundred and ",
    "initials": "a.",
    "one letter": "a",
    "spaces": " ",
    "marks": "e\u0301\u0302",
    "ideographs": "東",
    "quotes": "1'",
}
"""What amounts, dates, times and words begin with."""


def parse(text):
    """Read a text in every way there is, without a cap."""
    for _ in dates(text):
        pass
    for _ in amounts(Tokens(text)):
        pass
    times(text)
    words(text)
