"""Forms that stood in traces although their kind is promised: each is taken out, its like stays."""

import marshal

import pytest

from llmeval_sdk.redaction import Redactor


LETTERS = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7" * 6
HEX = "0a1b2c3d4e5f6789" * 8
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
    **{
        prefix: ("it is {} indeed", prefix + rest)
        for prefix, rest in (
            ("tskey-" + "auth-", LETTERS[:30]), ("CCI" + "PAT_", LETTERS[:50]),
            ("wandb" + "_v1_", LETTERS[:60]), ("rpa" + "_", LETTERS[:40]),
            ("re" + "_", LETTERS[:8] + "_" + LETTERS[:24]), ("ABSK", LETTERS[:130]),
            ("pat-" + "na1-", "0a1b2c3d-0a1b-2c3d-4e5f-0a1b2c3d4e5f"), ("sk" + "_", HEX[:48]),
            ("sk." + "eyJ", LETTERS[:40] + "." + LETTERS[:22]), ("nfp" + "_", LETTERS[:36]),
            ("lin_" + "oauth_", HEX[:64]), ("xsmtp" + "sib-", HEX[:64] + "-" + LETTERS[:16]),
            ("dp." + "st.prd.", LETTERS[:42]), ("napi" + "_", LETTERS[:60]),
        )
    },
}  # fmt: skip
HARMLESS = (
    "connect(user=user, password=password)", "password: required", "password: string",
    "password=None", "password: str = ''", "Password: ********", "cookie: none",
    "password: The one that you chose at the start", "<password>", "<title>hunter2</title>",
    "password=self.password", "password=settings.password, timeout=3",
)  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_a_promised_form_is_taken_out(name):
    """Nothing of the secret is left, and the first look does not pass it over."""
    around, secret = SECRETS[name]
    text = around.format(secret)
    redactor = Redactor(["api_key"])
    assert redactor.may_concern(marshal.dumps(text, 2), text)
    redacted = redactor.detect(text)
    assert secret[-7:] not in redacted
    assert secret[:12] not in redacted


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
