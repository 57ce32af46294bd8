"""The documents that stand in a prompt, and what only looks like one."""

import pytest
from counted import calls_of

from llmeval_sdk.model import Chunk, Record
from llmeval_sdk.model.documents import documents_of, sources_of


TASK = "Extract the fields as JSON."
INVOICE = "INVOICE 4711\nSubtotal 41.50\nTax 3.32\nTotal due 44.82"


@pytest.mark.parametrize(
    "request_",
    [
        f"{TASK}\n\n<document name='a.pdf'>\n{INVOICE}\n</document>",
        f"{TASK}\n\n```\n{INVOICE}\n```",
        f'{TASK}\n"""{INVOICE}"""',
        f"{TASK}\n\nDocument:\n{INVOICE}",
        f"## Task\n{TASK}\n\n## Invoice\n{INVOICE}\n\n## Output format\nJSON",
        f"{TASK}\nHere is the invoice text: \n{INVOICE}",
        [
            {"role": "system", "content": TASK * 50},
            {"role": "tool", "content": f"Source:\n{INVOICE}"},
        ],
        {
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": f"Text:\n{INVOICE}"}]}
            ]
        },
    ],
)
def test_a_marked_part_of_a_message_is_a_document(request_):
    """Elements, blocks and headings mark it; the instructions around it stay out."""
    (document,) = documents_of(request_)
    assert document.content == INVOICE


def test_a_document_has_the_name_that_its_element_gives():
    """So a reason can say which document a value came from."""
    (document,) = documents_of(f"<document name='a.pdf'>{INVOICE}</document>")
    assert document.doc_uri == "a.pdf"


def test_a_long_message_is_a_document_and_a_question_is_none():
    """Without any mark, length decides."""
    assert documents_of([{"role": "user", "content": INVOICE * 10}]) == (Chunk(INVOICE * 10),)
    assert documents_of("What is the total of the invoice?") == ()


@pytest.mark.parametrize(
    "request_",
    [
        [{"role": "system", "content": f"Document:\n{INVOICE * 20}"}],
        [{"role": "assistant", "content": f"```\n{INVOICE}\n```"}],
        f"<instructions>{INVOICE}</instructions>",
        f"<output_schema>{INVOICE}</output_schema>",
        'Answer in this format:\n```json\n{"total": "string, the amount due in EUR"}\n```',
        'Use it:\n```\n{"type": "object", "properties": {"total": {"type": "string"}}}\n```',
        "<document></document>",
        None,
        17,
    ],
)
def test_instructions_and_schemas_are_no_documents(request_):
    """They name every field and unit, so that any value would seem to stand in them."""
    assert documents_of(request_) == ()


def test_what_was_retrieved_comes_first():
    """The documents of the prompt count only where nothing was retrieved."""
    asked = f"Document:\n{INVOICE}"
    assert sources_of(Record(request=asked, retrieved_context=(Chunk("x"),))) == (Chunk("x"),)
    assert sources_of(Record(request=asked))[0].content == INVOICE
    assert sources_of(Record(request="total?")) is None


@pytest.mark.parametrize(
    "text",
    ["<a>" * 1_700_000, "```\n" * 1_200_000, "Text:\n" * 800_000, "## A\n" * 900_000, '"""' * 1_600_000,
     "<document>" * 500_000, "a b " * 1_200_000],
    ids=lambda text: text[:6],
)  # fmt: skip
def test_a_prompt_of_five_megabytes_is_read_with_bounded_work(text):
    """Only its beginning is read."""
    assert calls_of(lambda: documents_of([{"role": "user", "content": text}])) < 1_000_000
