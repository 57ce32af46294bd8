"""Forms that stood in traces although their kind is promised: each is taken out, its like stays."""

import pytest
from counted import calls_of
from hostile_pieces import FORMS
from hypothesis import given, settings
from hypothesis import strategies as st

from llmeval_sdk.exporters.redaction import Redactor


LETTERS = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7" * 6
HEX = "0a1b2c3d4e5f6789" * 8
UUID = "0a1b2c3d-0a1b-2c3d-4e5f-0a1b2c3d4e5f"
SECRETS = {
    "a short password": ("password: {}", "hunter2"),
    "a password without figures": ("password={}\nnext", "correcthorse"),
    "a password in a URL's query": ("pwd={}&a=b", "letmeinplease"),
    "a long bare value": ("api_key={} end", LETTERS * 20),
    "a long quoted value": ('password="{}" end', LETTERS * 20),
    "a long password in an address": ("postgres://u:{}@host/db", LETTERS + LETTERS),
    "behind an escaped character": ("\\u0022{}", "gh" + "p_" + LETTERS[:36]),
    "behind a colour": ("\x1b[1;31m{}\x1b[0m", "gh" + "p_" + LETTERS[:36]),
    "behind an escaped space": ("q=a%20{}", "gh" + "p_" + LETTERS[:36]),
    "XML": ("<c><db-password>{}</db-password></c>", "hunter2"),
    "the second pair of a cookie": ("Cookie: theme=dark; sid={}", "s3ss10nvalue99"),
    "a scheme of two words' letters": ("Authorization: ApiKey {}", LETTERS[:24]),
    "a key without figures behind a scheme": ("Authorization: ApiKey {}", "abcdefghij"),
    "a scheme in lower case": ("authorization: apikey {}", LETTERS[:32]),
    "a scheme with a hyphen": ("Authorization: Api-Key {}", LETTERS[:32]),
    "a scheme with an underscore": ("Authorization: API_KEY {}", LETTERS[:32]),
    "a token behind its scheme": ("Authorization: token {}", HEX[:40]),
    "a short token behind a scheme": ("Authorization: Bearer {}", "abc123"),
    "a pair behind a scheme": ("Authorization: SharedKey acc:{}", LETTERS[:43] + "="),
    "the response of a digest": ('Authorization: Digest username="a", response="{}"', HEX[:32]),
    "a signature behind other fields": (
        "Authorization: AWS4-HMAC-SHA256 Credential=AK/20/s3, Signature={}", HEX[:64]
    ),
    "a list of headers": ('{{"authorization": ["Bearer {}"]}}', LETTERS[:12]),
    "two blanks between cookies": ("Cookie: a=b;  sid={}", LETTERS[:24]),
    "a cookie with a dollar sign": ("Cookie: $Version=1; sid={}", LETTERS[:24]),
    "a cookie behind escapes": ("Cookie: u=%7B%22a%22; sid={}", LETTERS[:24]),
    "a cookie behind a bare name": ("Cookie: a; sid={}", LETTERS[:24]),
    "a cookie behind an empty one": ("Cookie: a=; sid={}", LETTERS[:24]),
    "a cookie behind a quoted one": ('Cookie: a="x y"; sid={}', LETTERS[:24]),
    "a cookie behind brackets": ("-H 'Cookie: a[b]=1; sid={}'", LETTERS[:24]),
    "a cookie with a colon": ("Cookie: theme=dark; sid=a:{}", LETTERS[:24]),
    "behind a cleared line": ("\x1b[K{}", "gh" + "p_" + LETTERS[:36]),
    "behind another cleared line": ("\x1b[2K{}", "gh" + "p_" + LETTERS[:36]),
    "behind an escaped byte": ("\\x22{}", "gh" + "p_" + LETTERS[:36]),
    "escaped twice": ("%2520{}", "gh" + "p_" + LETTERS[:36]),
    "an escaped blank behind Bearer": ("Bearer\\u0020{}", LETTERS[:40]),
    "Bearer between escaped blanks": ("%20Bearer%20{}", LETTERS[:40]),
    "an escaped equals sign": ("password%3D{}%26x", "hunter2abc9"),
    "an equals sign of JSON": ("api_key\\u003d{}", LETTERS[:30]),
    "escaped quotes": ("{{\\u0022password\\u0022:\\u0022{}\\u0022}}", "hunter2abc9"),
    "quotes of HTML": ("&quot;password&quot;:&quot;{}&quot;", "hunter2abc9"),
    "a coloured password": ("password: \x1b[31m{}\x1b[0m", "hunter2"),
    "a coloured name": ("\x1b[31mpassword\x1b[0m: {}", "hunter2"),
    "a token in XML": ("<token>{}</token>", LETTERS[:30]),
    "an access token in XML": ("<access-token>{}</access-token>", LETTERS[:30]),
    "CDATA": ("<password><![CDATA[{}]]></password>", "hunter2"),
    "a blank in the closing tag": ("<password>{}</password >", "hunter2"),
    "XML in JSON": ("<password>{}<\\/password>", "hunter2"),
    "escaped XML": ("\\u003cpassword\\u003e{}\\u003c/password\\u003e", "hunter2"),
    "XML in HTML": ("&lt;password&gt;{}&lt;/password&gt;", "hunter2"),
    "a property": ('<property name="password">{}</property>', "hunter2abc"),
    "a property list": ("<key>password</key><string>{}</string>", "hunter2abc"),
    "figures only": ("password: {}", "12345678"),
    "a password with signs": ("password: {}", "pa$$word!"),
    "a short password with signs": ("password = {}", "P@ss!"),
    "a password of two words": ("password:{}", "open-sesame"),
    "a word in a connection string": ("password={} host=db", "monkeys"),
    "a password beyond ASCII": ("password: {}", "hünter2x"),
    "a password that is told": ("my password is: {}", "hunter2"),
    "a word beside a user": ("- password: {}\n- user: x", "tangerine"),
    "a frequent password": ("password: {}", "letmein"),
    "a long value with brackets": ("secret: {}", LETTERS * 4 + "(" + LETTERS),
    "a long value with a colon": ("password={}", LETTERS * 6 + ":" + LETTERS),
    "a long value with an ampersand": ("api_key={}", LETTERS * 7 + "&" + LETTERS),
    "a user with an at sign": ("postgres://ad@min.com:{}@db/x", "S3cret99x"),
    "a number sign in an address": ("mongodb+srv://u:{}@c.net", "pa#ss9word"),
    "a question mark in an address": ("mysql://u:{}@h", "pa?ss9word"),
    "a slash in an address": ("mysql://u:{}@h", "pa/ss9word"),
    "an at sign in an address": ("mysql://u:{}@h", "pa@ss9word"),
    "an address in JSON": ("postgres:\\/\\/u:{}@h\\/d", "S3cretpw9"),
    "a token in an address": ("https://{}@github.com/o/r.git", HEX[:40]),
    **{
        prefix: ("it is {} indeed", prefix + rest)
        for prefix, rest in (
            ("tskey-" + "auth-", LETTERS[:30]), ("CCI" + "PAT_", LETTERS[:50]),
            ("wandb" + "_v1_", LETTERS[:60]), ("rpa" + "_", LETTERS[:40]),
            ("re" + "_", LETTERS[:8] + "_" + LETTERS[:24]), ("ABSK", LETTERS[:130]),
            ("pat-" + "na1-", UUID), ("sk" + "_", HEX[:48]),
            ("sk." + "eyJ", LETTERS[:40] + "." + LETTERS[:22]), ("nfp" + "_", LETTERS[:36]),
            ("lin_" + "oauth_", HEX[:64]), ("xsmtp" + "sib-", HEX[:64] + "-" + LETTERS[:16]),
            ("dp." + "st.prd.", LETTERS[:42]), ("napi" + "_", LETTERS[:60]),
            ("apify" + "_api_", LETTERS[:36]), ("vcp" + "_", LETTERS[:56]),
            ("dckr" + "_oat_", LETTERS[:32]), ("CFP" + "AT-", LETTERS[:43]),
            ("sk_org" + "_live_", LETTERS[:40]), ("rzp" + "_live_", LETTERS[:14]),
            ("sq" + "p_", HEX[:40]), ("sq" + "u_", HEX[:40]), ("dbt" + "c_", LETTERS[:40]),
            ("KG" + "AT_", HEX[:32]), ("SC" + "W", "AB3DE6GH9JK2MN5PQ"), ("dtn" + "_", HEX[:64]),
            ("MT" + "Iz", f"{LETTERS[:22]}.{LETTERS[:6]}.{LETTERS[:38]}"),
            ("bedrock" + "-api-key-", LETTERS[:160]), ("IQoJb3" + "JpZ2lu", LETTERS[:160]),
            ("sl" + ".", LETTERS[:135]), ("cfat" + "_", LETTERS[:40]), ("AKL" + "T", LETTERS[:43]),
            ("li" + "ve_", HEX[:35]), ("hcaik" + "_", "0a1b2c3d4e5f6g7h8j9k" * 3),
            ("sgp" + "_", LETTERS[:64]), ("cflt", LETTERS[:60]),
            ("glpat" + "-", LETTERS[:27] + ".01.0a1b2c3d4"), (HEX[:32], "-us14"),
            (LETTERS[:14], ".atlas" + "v1." + LETTERS[:67]), (LETTERS[:76], "AZ" + "DO1a2b"),
            (LETTERS[:3] + "8", "Q~" + LETTERS[:34]), (LETTERS[:52], "JQQ" + "J99BFACYeBjFXJ3w3"),
            ("access" + "_token$production$", "0a1b2c3d4e5f6a7b$" + HEX[:32]),
            ("a.webhook" + ".office.com/webhookb2/", f"{UUID}@{UUID}/IncomingWebhook/{HEX[:32]}"),
        )
    },
}  # fmt: skip
HARMLESS = (
    "connect(user=user, password=password)", "password: required", "password: string",
    "password=None", "password: str = ''", "Password: ********", "cookie: none",
    "password: The one that you chose at the start", "<password>", "<title>hunter2</title>",
    "password=self.password", "password=settings.password, timeout=3", "password=args.pwd2",
    *(f"password: {word}" for word in (
        "forgotten", "protected", "please", "strong", "correct", "default", "minimum", "disabled",
        "example", "bcrypt", "plaintext", "environ", "secretKeyRef", "SecretStr",
    )),
    *(f"Password: {word}" for word in ("Requirements", "accepted", "verified", "update")),
    "reset password: instructions", "if password == confirm_password: return",
    "<password>required</password>", "<token>the</token>", "password: Passwort vergessen",
    '<label for="password">Password</label>', '"password": "string"', 'password: "required"',
    "password: bob@example.com", "password: $PASSWORD", "password: 2024-11-25", "password: !vault",
    "secret: 2024-11-25T10:00:00Z", 'openai.api_key = "YOUR_API_KEY"', "Authorization: required",
    "ask('Password: ', stream=None)", "Authorization: granted by the board on 12.3.2024",
    'f"Authorization: Bearer {token}"', "authorization: Dr. Smith", "cookie: chocolate chip",
    "prior authorization: approved 2024-03-01", "ratio 3://4:5@6", "a 50 % share, password%20reset",
    "http://localhost:8080/a@b", "https://user@example.com:8080/p@x", "see http://a.b/c: d@e.f",
    '"Authorization": "Bearer " + token', "Authorization: Bearer YOUR_API_KEY", "PWD=/home/u1/project2",
    '<string name="forgot_password">Forgot your password?</string>',
    "ssh://git@github.com:owner/repo.git@v2", "<table>Password</table>", "live_music_in_the_town",
    "MTA-bus-schedules-and-more.for-you.in-the-city-of-new-york-2024",
)  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_a_promised_form_is_taken_out(name):
    """Nothing of the secret is left, and the first look does not pass it over."""
    around, secret = SECRETS[name]
    text = around.format(secret)
    redactor = Redactor(["api_key"])
    assert redactor.may_concern(text)
    redacted = redactor.detect(text)
    assert secret[-7:] not in redacted
    assert secret[:12] not in redacted.replace("access" + "_token$", "").replace("a.webhook.", "")


PIECES = (
    "password", "token", "authorization", "Cookie", "api_key", "access-", " is", ":", "=", "%3D", "%253a",
    "\\u003d", "\\u0022", "\\x22", "&quot;", "&lt;", '"', "'", "\\", "<", "</", ">", "<\\/", "<![CDATA[",
    "]]>", '<entry name="', "</entry>", "<key>", "</key>", "<string>", "</string>", "\x1b[1m", "\x1b[2K",
    " ", "\n", ";", ",", "a", "a1b2c3d4", "hunter2", "pa$$word!", "12345678", "letmein", "apikey ", "Digest ",
    "sid=x1", "://", ":\\/\\/", "u:", "@", "/", "host", "Bearer", "%20", "\\u0020", HEX[:40], "-us14", "AZDO",
    LETTERS[:76], LETTERS[:14], ".atlas" + "v1.", "Q~", "gh" + "p_", "SC" + "W", "sl.", "live_", "é", "\x00",
)  # fmt: skip


@settings(max_examples=750, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14))
def test_the_quick_look_agrees_on_every_mixture_of_forms(pieces):
    """Whatever is taken out of a text, the look at its record says so beforehand."""
    redactor = Redactor(["api_key", "jwt"])
    text = "".join(pieces)
    if redactor.detect(text) != text:
        assert redactor.may_concern((text, None, 7))


@pytest.mark.parametrize("name", SECRETS)
def test_a_redacted_form_stays_as_it_is(name):
    """What was redacted already, and what the mark replaced, changes no more."""
    around, secret = SECRETS[name]
    redactor = Redactor(["api_key"])
    for text in (around.format(secret), f'"Authorization": "Bearer {secret}"'):
        once = redactor.detect(text)
        assert redactor.detect(once) == once


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_speaks_of_a_secret_stays(text):
    """Code, schemas and forms name passwords without holding one."""
    assert Redactor(["api_key"]).detect(text) == text


@pytest.mark.parametrize("start", ["222300", "272099", "220012"])
def test_cards_that_begin_with_a_two_are_cards(start):
    """Mastercard's second series, and Mir."""
    digits = start + "000000000"
    last = next(d for d in "0123456789" if Redactor(["card"]).detect(digits + d) != digits + d)
    assert Redactor(["card"]).detect(f"card {digits}{last}.") == "card <redacted:card>."


def test_figures_outside_the_series_stay():
    """A number that begins with a two is most often an amount or a time."""
    text = "2030000000000000 2030000000000001 2030000000000002 2030000000000003 2030000000000004 "
    text += "2030000000000005 2030000000000006 2030000000000007 2030000000000008 2030000000000009"
    assert Redactor(["card"]).detect(text) == text


@pytest.mark.parametrize("groups", [(4, 4, 4, 4, 3), (8, 10)])
def test_the_long_cards_of_mir_are_cards_in_groups(groups):
    """A card of nineteen figures ends with three, and one of eighteen stands in two groups."""
    redactor = Redactor(["card"])
    digits = "2200053045098003184"[: sum(groups) - 1]
    plain = next(digits + d for d in "0123456789" if redactor.detect(digits + d) != digits + d)
    at = [sum(groups[:index]) for index in range(len(groups))]
    card = " ".join(plain[begin : begin + size] for begin, size in zip(at, groups, strict=True))
    assert redactor.detect(f"card {card} ok") == "card <redacted:card> ok"


@pytest.mark.parametrize("piece", FORMS)
def test_time_stays_linear_for_every_form(piece):
    """Four times the text takes at most five times the calls, whatever it repeats."""
    redactor = Redactor(["api_key"])
    small, large = (piece * (size // len(piece)) for size in (1 << 16, 1 << 18))
    few, many = (calls_of(lambda text=text: redactor.detect(text)) for text in (small, large))
    assert many <= 5 * few + 2_000
