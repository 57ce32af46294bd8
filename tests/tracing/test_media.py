"""Images, sounds and files in what an app sends are kept as what they were, not as their bytes."""

import base64
import json
import random
import urllib.parse
from hashlib import sha256

import pytest
from counted import calls_of

import llmeval_sdk as llmeval
from llmeval_sdk import testing


PNG = b"\x89PNG\r\n\x1a\n" + random.Random(7).randbytes(60_000)
CODED = base64.b64encode(PNG).decode()
URL = f"data:image/png;base64,{CODED}"
MARKER = f"<image/png of 60008 bytes, sha256 {sha256(PNG).hexdigest()[:16]}>"


def captured(value, **settings):
    """What a span holds of a request."""
    with testing.capture(escalations=[], **settings) as seen:
        with llmeval.llm("m", request=value) as span:
            span.response = "A cat."
        seen.drain()
    (done,) = seen.spans
    return done.request


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": URL}},
        {"type": "input_image", "image_url": URL},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": CODED}},
        {"inline_data": {"mime_type": "image/png", "data": CODED}},
        {"type": "file", "file": {"filename": "cat.png", "file_data": URL}},
    ],
    ids=["chat", "responses", "anthropic", "google", "file"],
)
def test_an_image_in_a_message_is_its_type_size_and_hash(part):
    """In every provider's spelling; the text beside it stays."""
    content = [{"type": "text", "text": "What is this?"}, part]
    request = captured([{"role": "user", "content": content}])
    assert MARKER in str(request)
    assert "What is this?" in str(request)
    assert len(str(request)) < 1_000


@pytest.mark.parametrize(
    "beginning",
    [b"\xff\xfb\x90\x64", b"PK\x03\x04", b"\0\0\0 ftypisom", b"fLaC", b""],
    ids=["mp3", "docx", "mp4", "flac", "pcm"],
)
def test_data_of_any_other_type_are_no_text_either(beginning):
    """Such as the sound of a call, which begins with nothing that is known."""
    data = beginning + random.Random(7).randbytes(60_000)
    sound = {"data": base64.b64encode(data).decode(), "format": "any"}
    (part,) = captured([{"type": "input_audio", "input_audio": sound}])
    digest = sha256(data).hexdigest()[:16]
    assert part["input_audio"]["data"] == f"<base64 of {len(data)} bytes, sha256 {digest}>"


def test_an_image_within_a_text_is_marked_too():
    """As in a page of Markdown; what stands around it is kept."""
    page = f"{'Slate roofs. ' * 1_500}![a cat]({URL}) and {'tin roofs. ' * 1_500}"
    assert captured(page) == page.replace(URL, MARKER)


BODIES = {
    "anthropic": {"type": "image", "source": {"media_type": "image/png", "data": CODED}},
    "openai": {"type": "image_url", "image_url": {"url": URL}},
    "twice": {"first": CODED, "second": json.dumps({"data": CODED})},
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_an_image_within_a_text_of_json_is_marked_too(body):
    """As apps pass the body of a request on; the text is JSON as before, or a marker within it."""
    text = json.dumps({"messages": [{"role": "user", "content": [body, "What is this?"]}]})
    seen = captured(text)
    assert MARKER in seen
    assert seen == text.replace(URL, MARKER).replace(CODED, MARKER)


def test_data_in_lines_are_marked_too():
    """Base64 of mail and certificates has an end of line after each 64 or 76 characters."""
    for width, end in [(64, "\n"), (76, "\r\n"), (76, "\n")]:
        lines = end.join(CODED[at : at + width] for at in range(0, len(CODED), width))
        assert captured(lines) == MARKER
        mail = f"Dear roofers,\n\nsee the picture.\n\n{lines}{end}{end}Yours, Ana\n"
        assert captured(mail) == mail.replace(lines, MARKER)
        wrapped = json.dumps({"data": lines, "name": "cat"})
        assert captured(wrapped) == f'{{"data": "{MARKER}", "name": "cat"}}'


def test_a_picture_written_in_percents_is_marked_too():
    """As style sheets have an SVG; the size and the hash are of what it stands for."""
    drawn = b"<svg xmlns='http://www.w3.org/2000/svg'>" + b"<path d='M 1 2'/>" * 2_000 + b"</svg>"
    url = f"data:image/svg+xml,{urllib.parse.quote(drawn)}"
    digest = sha256(urllib.parse.unquote_to_bytes(url.partition(",")[2][: 1 << 17])).hexdigest()
    marker = f"<image/svg+xml of {len(drawn)} bytes, sha256 {digest[:16]}>"
    assert captured(url) == marker
    page = f"{'Slate roofs. ' * 100}![a roof]({url}) and tin roofs."
    assert captured(page) == page.replace(url, marker)


def test_a_picture_of_megabytes_within_a_text_leaves_nothing_behind():
    """However large it is, what stands after it is kept."""
    data = random.Random(7).randbytes(6_000_000)
    text = json.dumps({"data": base64.b64encode(data).decode(), "question": "What is this?"})
    seen = captured(text)
    assert seen.endswith('"question": "What is this?"}')
    assert "base64 of 6000000 bytes" in seen
    assert len(seen) < 200


@pytest.mark.parametrize("noun", [dict, llmeval.Chunk], ids=["mapping", "chunk"])
def test_an_image_in_what_was_retrieved_or_extracted_is_marked_too(noun):
    """Whether a passage is a mapping or a noun of ours."""
    extraction = dict if noun is dict else llmeval.Extraction
    with testing.capture(escalations=[]) as seen:
        with llmeval.workflow("w") as span:
            span.annotate(
                retrieved_context=[noun(content=URL), noun(content="slate")],
                extractions=[extraction(value=URL, evidence=URL)],
            )
        seen.drain()
    (done,) = seen.spans
    assert [chunk.content for chunk in done.retrieved_context] == [MARKER, "slate"]
    assert [(one.value, one.evidence) for one in done.extractions] == [(MARKER, MARKER)]


@pytest.mark.parametrize("make", [bytes, bytearray])
def test_bytes_are_marked_as_their_base64_would_be(make):
    """With their type, size and hash."""
    assert captured({"data": make(PNG)}) == {"data": MARKER}
    digest = sha256(b"abc").hexdigest()[:16]
    assert captured(make(b"abc")) == f"<{make.__name__} of 3 bytes, sha256 {digest}>"


def test_images_are_kept_for_those_who_want_them():
    """By a setting; bytes then become a data URL."""
    assert captured(URL, images="keep") == URL
    assert captured(json.dumps({"data": CODED}), images="keep") == json.dumps({"data": CODED})
    assert captured(PNG, images="keep") == URL
    assert captured(b"abc", images="keep") == "data:application/octet-stream;base64,YWJj"


def test_of_bytes_that_are_kept_as_much_is_kept_as_of_a_text():
    """The note at the end says that there was more."""
    seen = captured(random.Random(7).randbytes(1_000_000), images="keep")
    kept = (1 << 17) * 3 // 4
    assert (1 << 17) < len(seen) < (1 << 17) + 100
    assert seen.endswith(f"<truncated {1_000_000 - kept} bytes>")


@pytest.mark.parametrize(
    "text",
    [
        "data: 3, 5 and 7. " * 100,
        "/9j/ and more " * 100,
        f"{'x' * 20_000};base64,no",
        "iVBORw0KGg",
        "x" * 20_000,
        "ACGT" * 5_000,
        "0123456789abcdef" * 500,
        "Ab1%20" * 2_000,
        "Ab1 " * 5_000,
        "".join(f"Word{n}\n" for n in range(2_000)),
        "".join(f"{n:064x}\n" for n in range(2_000)),
        "".join(f"C:\\Users\\Ana1\\{n}.txt\n" for n in range(2_000)),
        json.dumps([{"Id": n, "Name": f"Roof{n}"} for n in range(2_000)], separators=(",", ":")),
        "https://example.com/a%20b/c%20d?q=%41\n" * 500,
        "see data:image/svg+xml,short and more " * 500,
    ],
)
def test_what_only_begins_like_an_image_stays_as_it_is(text):
    """Texts of people, that is."""
    assert captured(text) == text


@pytest.mark.parametrize(
    "text",
    ["data:image/png;base64," * 50_000, f"{'data:a/b;' * 100_000};base64,", URL * 100,
     f"data:image/png;base64,{'A' * 8_000_000}", f"{'x' * 100};base64,{'A' * 600}" * 2_000,
     "Ab1/" * 2_000_000 + " ", f"{'Ab1/' * 400}\n" * 2_000, f"{'Ab1/' * 16}\n" * 50_000,
     f"{'Ab1/' * 16}\n" * 2 + " " * 900 + "Ab1/" * 100_000, "data:a/b,%41" * 100_000,
     "Ab1\\" * 1_000_000 + '"'],
    ids=["heads", "parameters", "many", "huge", "embedded", "run", "wide", "lines", "mixed",
         "percents", "backslashes"],
)  # fmt: skip
def test_hostile_data_take_bounded_work_of_the_app(text):
    """Megabytes of what looks like data, or is."""
    captured("the first call configures the SDK")
    assert calls_of(lambda: captured(text)) < 80_000
