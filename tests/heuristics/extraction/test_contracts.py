"""`extraction_risk` of values that stand in prose, as in contracts."""

from dataclasses import replace

import pytest
from counted import calls_of

from llmeval_sdk.heuristics.extraction import risk
from llmeval_sdk.heuristics.extraction.risk import extraction_risk
from llmeval_sdk.model import Chunk, Record
from llmeval_sdk.text.cues import cues, sections_in
from llmeval_sdk.text.extraction import read
from llmeval_sdk.text.labels import definitions_in, term_of
from llmeval_sdk.text.values import core_of


PREAMBLE = (
    'This Supply Agreement (this "Agreement") is entered into as of May 4, 2015 by and between Copper'
    ' Bay Foods, Inc., an Oregon corporation with offices at 9 Pier Road, Astoria ("Supplier"), and'
    ' Larch Retail LLC ("Buyer"). It replaces a letter of intent dated January 9, 2015.'
)
TERM = (
    "2. TERM\n2.1 The obligations of the parties begin on June 1, 2015 (the “Effective Date”). This"
    " Agreement runs for two (2) years from that day, ending on May 31, 2017 (the “Initial Term”), and"
    " shall renew for successive terms of one (1) year unless a party gives at least sixty (60) days'"
    " notice before its end."
)
LIABILITY = (
    "7. INSURANCE\nSupplier carries insurance of at least $2,000,000.\n"
    "8. LIMITATION OF LIABILITY\nNo party owes the other more than $150,000 in damages.\n"
    "9. Governing Law. This Agreement is governed by the laws of the State of Oregon."
)
SIGNED = "Copper Bay Foods, Inc.\nBy: /s/ Ida Storm\nName: Ida Storm\nDate: May 11, 2015"
PASSAGES = tuple(
    Chunk(text, "supply.pdf", str(n)) for n, text in enumerate((PREAMBLE, TERM, LIABILITY, SIGNED))
)


def asked(name, value, description=""):
    config = {"name": name, "description": description}
    return Record(value=value, field_config=config, retrieved_context=PASSAGES, request="")


def chance(name, value):
    return extraction_risk.evaluate(asked(name, value)).value


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("effective_date", "June 1, 2015", "May 4, 2015"),
        ("effective_date", "2015-06-01", "2015-05-11"),
        ("agreement_date", "May 4, 2015", "January 9, 2015"),
        ("agreement_date", "May 4, 2015", "May 11, 2015"),
        ("expiration_date", "May 31, 2017", "June 1, 2015"),
        ("supplier", "Copper Bay Foods, Inc.", "Larch Retail LLC"),
        ("buyer", "Larch Retail LLC", "Copper Bay Foods, Inc."),
        ("initial_term", "two (2) years", "one (1) year"),
        ("liability_limit", "$150,000", "$2,000,000"),
        ("parties", "Copper Bay Foods, Inc. and Larch Retail LLC", "Ida Storm"),
        ("governing_law", "Oregon, USA", "Astoria"),
        ("notice_period", "60 days", "60"),
    ],
)
def test_a_neighbour_is_riskier_than_the_value_that_the_contract_defines(name, right, wrong):
    """By its defined term, its label in the sentence, its section or the rest of its phrase."""
    assert chance(name, right) < chance(name, wrong)


def test_a_reason_names_both_terms():
    """A person sees at once which one the contract means."""
    text = 'between Copper Bay Foods, Inc. ("Supplier") and Larch Retail LLC (the "Buyer").'
    record = replace(asked("supplier", "Larch Retail LLC"), retrieved_context=(Chunk(text),))
    told = extraction_risk.evaluate(record).explanation
    assert told == "it stands under 'Buyer', and 'Copper Bay Foods, Inc' stands under 'Supplier'"


def test_a_reason_names_both_sections():
    """The heading above the value, and the one that is about the field."""
    told = extraction_risk.evaluate(asked("liability_limit", "$2,000,000")).explanation
    own, other = "under the heading 'insurance'", "'limitation of liability' is about the field"
    assert told == f"it stands {own}, and {other}"


def test_a_description_that_mentions_a_party_asks_for_none():
    """Who signs for the supplier is a person."""
    (reading,) = read(asked("signatory", "Ida Storm", "Who signed for the supplier"))
    assert reading.concept == "signatory"
    (reading,) = read(asked("x", "Larch Retail LLC", "Name of the buyer"))
    assert reading.concept == "buyer"


@pytest.mark.parametrize(
    ("phrase", "core"),
    [
        ("at least ninety (90) days before its end", ("quantity", "90days")),
        ("5% of Net Sales", ("percent", "5")),
        ("This Agreement is entered into as of the 3rd day of May, 2015", ("date", "2015-05-03")),
        ("Milk 1 l", None),
        ("from May 3, 2015 to May 9, 2015", None),
        ("two apples", None),
        ("x" * 500, None),
    ],
)
def test_a_phrase_is_about_its_only_amount(phrase, core):
    """A few words with a capital are a name, and two amounts leave it open."""
    found = core_of(phrase)
    assert found == core or (
        core is not None and found is not None and found[0] == core[0] == "quantity"
    )


def test_the_terms_that_a_contract_defines_are_found():
    """In straight and in typographic quotation marks, and by what the table of labels knows."""
    terms = [definition.label.concept for definition in definitions_in(f"{PREAMBLE}\n{TERM}")]
    assert terms == ["agreement", "seller", "buyer", "start_date", "initial term"]
    assert term_of("initialTerm") == "initial term"


def test_headings_tell_sections_apart():
    """Numbered ones, lines of capitals and those of Markdown; the text goes on below them."""
    text = (
        "## Usage\nRun it.\n3.2 Fees. They are due.\nMISCELLANEOUS\nNo more.\nNorthwind Ltd\nOslo"
    )
    sections = sections_in(text, text.lower(), (0,))
    assert sections.headings == ["usage", "fees", "miscellaneous"]
    assert sections.at(text.index("due")) == 1
    assert sections.scores(cues({"name": "fees"}, "")) == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("name", "value", "text", "whole"),
    [
        ("date", "May 2015", "made on the 4th day of May 2015.", "May 4, 2015"),
        ("date", "May 2015", "made on May 4th, 2015.", "May 4, 2015"),
        ("notice", "sixty", "upon sixty days' notice", "sixty days"),
        ("notice", "60", "upon 60 days' notice", "60 days"),
        ("title", "Supply", "This Supply Agreement is made", "Supply Agreement"),
        ("audit", "Buyer may inspect the", "Buyer may inspect the books. Or not.", "Buyer may inspect the books."),
    ],
)  # fmt: skip
def test_a_part_of_a_value_is_incomplete(name, value, text, whole):
    """The text has more of it; the whole value is not."""

    def measured(value):
        made = Record(value=value, field_config={"name": name}, retrieved_context=(Chunk(text),))
        (reading,) = read(made)
        return risk.features(made, reading)["incomplete"]

    assert (measured(value), measured(whole)) == (1.0, 0.0)


def test_a_figure_that_is_no_text_needs_no_unit():
    """A field of its own type holds the number of days alone."""
    made = Record(value=60, field_config={"name": "notice"}, retrieved_context=(Chunk("60 days"),))
    (reading,) = read(made)
    assert risk.features(made, reading)["incomplete"] == 0


def test_what_came_along_from_the_next_sentence_is_told():
    """A part of one sentence with the whole of the next."""
    long = asked(
        "liability_limit", "$150,000 in damages.\n9. Governing Law. This Agreement is governed"
    )
    (reading,) = read(long)
    assert risk.features(long, reading)["overlong"] == 1
    short = asked("liability_limit", "$150,000 in damages")
    (reading,) = read(short)
    assert risk.features(short, reading)["overlong"] == 0


@pytest.mark.parametrize(
    "text",
    ['("' * 20_000, "(the " * 10_000, "1. " * 13_000, "# " * 20_000, '(a "b") ' * 5_000, "A\n" * 20_000],
    ids=["openings", "brackets", "numbers", "marks", "terms", "lines"],
)  # fmt: skip
def test_a_hostile_contract_is_read_with_bounded_work(text):
    """Neither brackets nor headings without an end take more than a linear time."""
    record = Record(value="May 4, 2015", field_config={"name": "effective_date"},
                    retrieved_context=(Chunk(f"{PREAMBLE} {text[:9_000]}"),) * 4)  # fmt: skip
    assert calls_of(lambda: extraction_risk.evaluate(record)) < 40_000
