"""Every documented shape of a secret is found, wherever it stands, and nothing that is none."""

import pytest
from counted import calls_of
from hypothesis import given, settings
from hypothesis import strategies as st
from secret_forms import FIELDS, HARMLESS_FIELDS, forms

from llmeval_sdk.exporters._secrets import may_have_secrets
from llmeval_sdk.exporters.redaction import Redactor


NAMES = tuple(forms(0))
AROUND = (
    "{}",
    "it is {} indeed",
    "a\n{}\nb",
    "schön: {}",
    "({})",
    "`{}`",
    '{{"k": "x", "t": "{}"}}',
)
HARMLESS = (
    "token = tokens[0]", "password = getpass.getpass('Password: ')", "the secret: patience and time",
    "max_tokens: 4096, token: 17", "risk-assessment-of-the-northern-regions", "key: value",
    "api_key=os.environ['OPENAI_API_KEY']", "password=${DB_PASSWORD}", "sk-learn-is-a-nice-library-too",
    "https://example.com/a-very-long-path-without/any-secret-in-it/at-all.html?page=2&order=asc",
    '{"token": "Hello", "logprob": -0.3}', "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "d9428888-122b-11e1-b85c-61cd3cbb3210", "the Authorization: header is described below",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----",
    "time: 10:30:00, ratio 3:1, see http://localhost:8080/a@b", "Donaudampfschifffahrtsgesellschaft",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_secret_of_every_shape_is_taken_out_of_any_surroundings(name):
    """Of twenty made at random, in seven surroundings, none is left."""
    redactor = Redactor(["api_key"])
    for seed in range(20):
        text, secret = forms(seed)[name]
        for around in AROUND:
            whole = around.format(text)
            assert secret not in redactor.detect(whole), whole


@pytest.mark.parametrize("text", HARMLESS)
def test_code_prose_and_public_keys_stay(text):
    """LLM apps speak about keys all day."""
    assert Redactor(["api_key"]).detect(text) == text


@pytest.mark.parametrize("name", FIELDS)
def test_every_spelling_of_a_secret_field_is_known_at_any_depth(name):
    """In arguments, in JSON inside of a text, and in JSON inside of that."""
    redactor = Redactor(["api_key"])
    value = [{"a": ({"b": {name: "hunter2 and more"}},)}]
    assert redactor.may_concern(value)
    assert "hunter2" not in repr(redactor.detect(value))


@pytest.mark.parametrize("name", HARMLESS_FIELDS)
def test_fields_that_only_look_alike_stay(name):
    """Counts of tokens, names of tokenizers, and words that hold one."""
    value = {name: "hunter2 and more"}
    assert Redactor(["api_key"]).detect(value) == value


@pytest.mark.parametrize("quote", ['"', '\\"', '\\\\\\"', "'"])
def test_fields_of_json_inside_of_a_text_are_known(quote):
    """Tool arguments are JSON in a text, and a log of them is JSON in that."""
    text = "{'user': {'apiKey': 'correct horse', 'n': 1}}".replace("'", quote)
    assert Redactor(["api_key"]).detect(text) == text.replace("correct horse", "<redacted:secret>")


PAIRS = (
    {"name": "DB_PASSWORD", "value": "hunter two"}, {"value": "hunter two", "key": "api-key"},
    {"Name": "clientSecret", "Value": "hunter two"},
    {"env": [{"name": "A", "value": "b"}, {"name": "GITHUB_TOKEN", "value": "hunter two"}]},
)  # fmt: skip


@pytest.mark.parametrize("value", PAIRS)
def test_the_value_of_a_pair_goes_by_the_name_beside_it(value):
    """As in the variables of a container, or the headers of a request."""
    redactor = Redactor(["api_key"])
    assert redactor.may_concern(value)
    assert "hunter" not in repr(redactor.detect(value))


PAIR_TEXTS = (
    '{"name": "DB_PASSWORD", "value": "hunter2 two"}', "- name: DB_PASSWORD\n  value: hunter2two",
    '{\\"key\\": \\"api_key\\",\\n  \\"value\\": \\"hunter2 two\\"}',
)  # fmt: skip


@pytest.mark.parametrize("text", PAIR_TEXTS)
def test_pairs_are_known_in_json_and_yaml_inside_of_a_text(text):
    """A manifest in a prompt is a text."""
    redactor = Redactor(["api_key"])
    assert redactor.may_concern(text)
    assert "hunter2" not in redactor.detect(text)


def test_the_tokens_of_log_probabilities_stay():
    """They are pieces of the answer, as harmless as it is."""
    piece = {"token": "Hello", "logprob": -0.3, "bytes": [72], "top_logprobs": []}
    value = {"content": [{**piece, "top_logprobs": [piece]}], "pair": {"name": "a", "value": "b"}}
    redactor = Redactor(["api_key"])
    assert redactor.detect(value) == value
    assert not redactor.may_concern(value)


@pytest.mark.parametrize("piece", ["password=a1b2c3d4e5 ", "x://u:hunter2@h "])
def test_a_text_with_more_secrets_than_are_looked_at_loses_the_rest_whole(piece):
    """The bound of time is no way around the redaction."""
    assert piece[-11:-1].strip("@h ") not in Redactor(["api_key"]).detect(piece * 12_000)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=30), st.integers(0, 50), st.sampled_from(NAMES), st.text(max_size=30))
def test_the_quick_look_never_loses_what_the_detectors_find(before, seed, name, after):
    """Whatever is redacted in a text, the look at its whole record says so beforehand."""
    redactor = Redactor(["api_key", "jwt"])
    whole = before + forms(seed)[name][0] + after
    if redactor.detect(whole) != whole:
        assert redactor.may_concern((1, [whole, 7.0], {"k": None}))


@settings(max_examples=500, deadline=None)
@given(st.text(alphabet="sk-hf_ABEGINPRVTKY:=/@\"'\\ \nnbearer01passwordvalue,", max_size=80))
def test_the_quick_look_agrees_on_any_text_of_such_letters(text):
    """Also where the parts of secrets are mixed as nobody thought of."""
    redactor = Redactor(["api_key", "jwt"])
    if redactor.detect(text) != text:
        assert redactor.may_concern((text,))


def test_redacting_twice_changes_nothing():
    """No mark is taken for a secret."""
    redactor = Redactor(["api_key"])
    once = redactor.detect("\n".join(text for text, _ in forms(5).values()))
    assert redactor.detect(once) == once


def test_a_clean_text_costs_less_than_half_of_a_look_by_pattern():
    """Two kilobytes of prose are passed over; a secret in them costs the full scan."""
    prose = ("The lease begins in May: the rent is due on the first of each month. " * 30)[:2_000]
    secret = prose[:-100] + forms(1)["openai"][0]
    redactor = Redactor(["api_key", "jwt"])

    for text in (prose, secret):
        redactor.detect(text)  # finds its patterns
    assert calls_of(lambda: redactor.detect(prose)) < calls_of(lambda: redactor.detect(secret)) / 2


@pytest.mark.parametrize("sign", ["@", "%", "&", "\\", "\x1b", "http://", "@ %"])
def test_a_stray_sign_in_a_record_costs_little(sign):
    """Identifiers hold any byte by chance, which must not start a search of the whole record."""
    prose = "word " * 4_000
    assert not may_have_secrets(prose)
    plain = calls_of(lambda: may_have_secrets(prose))
    assert not may_have_secrets(prose + sign)
    assert calls_of(lambda: may_have_secrets(prose + sign)) < plain * 4
