"""Images, sounds and files in what an app sends are kept as what they were, not as their bytes."""

import base64
import random
import time
from hashlib import sha256

import pytest
from machine import is_within

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


def test_images_are_kept_for_those_who_want_them():
    """By a setting."""
    assert captured(URL, images="keep") == URL


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
    ],
)
def test_what_only_begins_like_an_image_stays_as_it_is(text):
    """Texts of people, that is."""
    assert captured(text) == text


@pytest.mark.alone("it measures")
@pytest.mark.parametrize(
    "text",
    ["data:image/png;base64," * 50_000, f"{'data:a/b;' * 100_000};base64,", URL * 100,
     f"data:image/png;base64,{'A' * 8_000_000}", f"{'x' * 100};base64,{'A' * 600}" * 2_000],
    ids=["heads", "parameters", "many", "huge", "embedded"],
)  # fmt: skip
def test_hostile_data_take_no_time_of_the_app(text):
    """Megabytes of what looks like data, or is."""
    begun = time.perf_counter()
    captured(text)
    assert is_within(time.perf_counter() - begun, 0.1)
