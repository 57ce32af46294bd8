"""Properties of finding values in texts: what is written differently is found, the rest is not."""

import datetime as dt

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from llmeval_sdk.text.amounts import only_date, readings, spelled
from llmeval_sdk.text.budget import WorkBudget
from llmeval_sdk.text.folding import fold
from llmeval_sdk.text.support import EvidenceText, Words, aligned, support


days = st.dates(dt.date(1970, 1, 1), dt.date(2069, 12, 31))
MONTHS = "January February March April May June July August September October November December"


def ending(day):
    return "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def writings(day):
    """Write a day in many ways."""
    name = MONTHS.split()[day.month - 1]
    d, m, y, yy = day.day, day.month, day.year, day.year % 100
    return [
        f"{y}-{m:02}-{d:02}", f"{d:02}/{m:02}/{y}", f"{m}/{d}/{y}", f"{d}.{m}.{y}", f"{d:02}.{m:02}.{yy:02}",
        f"{d:02}-{m:02}-{yy:02}", f"{y}/{m:02}/{d:02}", f"{y}{m:02}{d:02}", f"{d} {name} {y}",
        f"{d}{ending(d)} of {name}, {y}", f"{name} {d}, {y}", f"{name} {d}{ending(d)} {y}",
        f"{d:02}-{name[:3]}-{yy:02}", f"{d:02}{name[:3].upper()}{y}", f"{name[:3]}. {d}, {y}",
        f"the {d}{ending(d)} day of {name}, {y}", f"{y}年{m}月{d}日", f"{d:02}/{m:02}/{y}9:41",
        f"{d} {name.upper()} {y}, 10:15 PM",
    ]  # fmt: skip


@given(days, st.integers(0, 18))
def test_a_day_is_found_however_the_text_writes_it(day, which):
    """An ISO date from a model matches any usual writing."""
    text = f"Signed on {writings(day)[which]} in Basel"
    assert support(day.isoformat(), EvidenceText(text)) in ("date", "verbatim")


@given(days, st.integers(0, 16))
def test_a_day_is_found_however_the_model_writes_it(day, which):
    """Any usual writing matches the day in words."""
    value = writings(day)[which]
    text = f"Signed on {day.day} {MONTHS.split()[day.month - 1]} {day.year} in Basel"
    assert support(value, EvidenceText(text)) in ("date", "verbatim", "normalised")


@given(days, days, st.integers(0, 18))
def test_another_day_is_not_found(day, other, which):
    """A wrong day stays wrong, unless figures can be read either way."""
    text = writings(day)[which]
    figures = (day.day, day.month, day.year % 100)
    assume(sorted(figures) != sorted((other.day, other.month, other.year % 100)))
    assert support(other.isoformat(), EvidenceText(f"Signed on {text} in Basel")) == "unsupported"


@given(st.integers(1, 12), st.integers(1, 12), st.integers(2000, 2049), st.sampled_from("/-."))
def test_day_and_month_are_not_exchanged(day, month, year, mark):
    """Two dates in figures are read in the same order."""
    assume(day != month)
    text = f"on {day:02}{mark}{month:02}{mark}{year}."
    assert support(f"{month:02}/{day:02}/{year}", EvidenceText(text)) == "unsupported"


@pytest.mark.parametrize("text", ["31/02/2018", "32 March 2021", "0/0/2000", "13/13/2013", "12/2"])
def test_a_day_that_does_not_exist_is_no_date(text):
    """The calendar decides."""
    assert only_date(text.lower())[0] == ()


@given(st.integers(0, 10**9), st.integers(0, 99))
def test_a_number_is_found_with_any_separators(whole, cents):
    """English, continental, Swiss and spaced writings are one number."""
    value = f"{whole}.{cents:02}"
    english = f"{whole:,}.{cents:02}"
    for written in (
        english,
        english.translate(str.maketrans(",.", ".,")),
        english.replace(",", "'"),
        english.replace(",", " ").replace(".", ","),
    ):
        assert support(value, EvidenceText(f"In all {written} were paid")) in ("number", "verbatim")
        assert support(float(value), EvidenceText(f"In all {written} were paid")) == "number"


@given(st.integers(1, 10**6), st.integers(1, 99), st.integers(-99, 99))
def test_another_number_is_not_found(whole, cents, change):
    """A cent off is another number."""
    assume(change % 100)
    wrong = f"{(100 * whole + cents + change) / 100:.2f}"
    assert support(wrong, EvidenceText(f"In all {whole:,}.{cents:02} were paid")) == "unsupported"


ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen""".split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()


def in_words(number):
    """Spell a number below a million."""
    if number >= 1000:
        rest = number % 1000
        return in_words(number // 1000) + " thousand" + (f" {in_words(rest)}" if rest else "")
    if number >= 100:
        rest = number % 100
        return ONES[number // 100] + " hundred" + (f" and {in_words(rest)}" if rest else "")
    if number >= 20:
        return TENS[number // 10] + (f"-{ONES[number % 10]}" if number % 10 else "")
    return ONES[number]


@given(st.integers(0, 999_999))
def test_a_number_in_words_is_read(number):
    """Up to a million, with and without hyphens."""
    words = in_words(number).replace("-", " ").split()
    assert spelled(words, 0) == (number, len(words))
    assert support(number, EvidenceText(f"exactly {in_words(number)} boxes")) == "number"


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ("1.234", (1.234, 1234)), ("1,5", (1.5,)), ("0,500", (0.5,)), ("1,234,567", (1234567,)),
        ("1.234.567,89", (1234567.89,)), ("1,2,3", ()), ("12.05.2018", ()), ("1'234", (1234,)),
        ("007", (7,)), ("1" * 31, ()), ("1,00,000.5", (100000.5,)), ("1,234,56", ()),
    ],
)  # fmt: skip
def test_separators_are_read_in_every_way_that_makes_sense(figures, expected):
    """What cannot be one number is none."""
    assert readings(figures) == expected


WORDS = """harbour meadow granite lantern orchard saddler compass thistle juniper bramble falcon
copper willow summit cavern timber beacon marble violet anchor walnut pepper saffron quarry""".split()
names = st.lists(st.sampled_from(WORDS), min_size=3, max_size=8, unique=True)


@given(names, st.data())
def test_one_swapped_word_fails(name, data):
    """However long the name, one other word makes it another name."""
    place = data.draw(st.integers(0, len(name) - 1))
    other = data.draw(st.sampled_from([word for word in WORDS if word not in name]))
    text = f"Invoice of {' '.join(name)} to the order of nobody"
    swapped = [*name[:place], other, *name[place + 1 :]]
    assert support(" ".join(swapped), EvidenceText(text)) == "unsupported"


@given(names, st.data())
def test_one_misread_letter_passes(name, data):
    """A scanner's slip in a word of a longer name is forgiven."""
    place = data.draw(st.integers(0, len(name) - 1))
    letter = data.draw(st.integers(0, len(name[place]) - 1))
    misread = name[place][:letter] + "w" + name[place][letter + 1 :]
    assume(misread != name[place])
    there = [*name[:place], misread, *name[place + 1 :]]
    assert (
        support(" ".join(name), EvidenceText(f"Invoice of {' '.join(there)}, page 1")) == "aligned"
    )


@given(names, st.data())
def test_one_missing_word_fails(name, data):
    """A word the text does not have is not found in it."""
    place = data.draw(st.integers(0, len(name) - 1))
    there = name[:place] + name[place + 1 :]
    assert (
        support(" ".join(name), EvidenceText(f"Invoice of {' '.join(there)} page")) == "unsupported"
    )


@given(names, st.integers(1, 99_999), st.integers(1, 99_999))
def test_figures_have_to_be_right(name, number, other):
    """A house number is not forgiven a digit."""
    assume(number != other)
    text = EvidenceText(f"{number} {' '.join(name)} road")
    assert support(f"{number} {' '.join(name)} road", text) == "verbatim"
    assert support(f"{other} {' '.join(name)} road", text) == "unsupported"


@given(names, st.sampled_from(["", "  ", "\n", ", ", " - ", "_", "\u00a0", "/"]))
def test_spaces_and_separators_do_not_matter(name, mark):
    """Line breaks, commas and run-together words are the same name."""
    text = EvidenceText(f"Invoice: {mark.join(name).upper()} page")
    assert support(" ".join(name), text) == "normalised"


@given(names)
def test_words_far_apart_are_not_a_name(name):
    """Every word somewhere in the text is not enough."""
    text = " and then we walked on for a while to the ".join(name)
    assert not aligned(name, Words(fold(text).split()), WorkBudget())


@given(st.text(min_size=1, max_size=40))
def test_what_stands_in_a_text_is_always_found(value):
    """Whatever a value is, a text that has it between spaces supports it."""
    found = support(value, EvidenceText(f"before {value} after"))
    assert found == ("verbatim" if any(map(str.isalnum, value.strip())) else None)


@given(st.text(max_size=60))
def test_folding_is_stable(text):
    """Folded text stays as it is when folded again."""
    assert fold(fold(text)) == fold(text)


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_text_makes_support_raise(value, text):
    """Any two strings have an answer."""
    assert support(value, EvidenceText(text)) in (
        None, "verbatim", "normalised", "date", "money", "unit", "number", "aligned", "unsupported",
    )  # fmt: skip
