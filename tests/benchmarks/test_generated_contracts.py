"""The contracts that extraction_risk is measured on: their truth, their splits, their errors."""

from __future__ import annotations

import pytest


pytest.importorskip("babel")

from benchmarks.quality.contract_answers import (
    KINDS,
    contract_objects,
    contract_questions,
    contracts,
)
from benchmarks.quality.contract_words import CONTRACT_WORDS
from benchmarks.quality.structured_answers import RIGHT


SPLITS = ("train", "apart")


def plain(text: str) -> str:
    return " ".join(text.split()).lower()


@pytest.mark.parametrize("split", SPLITS)
def test_each_value_stands_in_the_passages_that_are_said_to_state_it(split):
    for contract in contracts(12, split):
        assert 4_000 <= len(contract.document.text) <= 15_000
        assert not any("\ue000" <= letter <= "\uf8ff" for letter in contract.document.text)
        for key, term in contract.terms.items():
            stating = [
                plain(chunk.content)
                for chunk, keys in zip(contract.chunks, contract.states, strict=True)
                if key in keys
            ]
            assert stating, key
            if term.kind not in ("parties", "duration"):
                assert any(plain(term.text) in text for text in stating), (key, term.text)


def test_contracts_are_the_same_for_the_same_seed():
    assert contracts(3, "apart") == contracts(3, "apart")
    assert contracts(3, "apart") != contracts(3, "apart", seed=1)


def test_the_splits_share_no_wording_company_person_or_kind():
    one, other = (CONTRACT_WORDS[split] for split in SPLITS)
    assert one.clauses.keys() == other.clauses.keys()
    for key, wordings in one.clauses.items():
        assert not set(wordings) & set(other.clauses[key])
        assert len(wordings) >= (3 if key == "notices" else 5)
    assert not set(one.companies) & set(other.companies)
    assert not set(one.people) & set(other.people)
    assert not {kind[0] for kind in one.kinds} & {kind[0] for kind in other.kinds}


@pytest.mark.parametrize("make", [contract_questions, contract_objects])
def test_a_tenth_of_the_values_is_wrong_and_each_error_has_a_kind(make):
    given = [one for answer in make(120) for one in answer.given if one.has_value]
    wrong = [one for one in given if one.is_wrong]
    assert {one.kind for one in given} <= {RIGHT, *KINDS}
    assert 0.07 <= len(wrong) / len(given) <= 0.14
    assert all(str(one.value) != one.truth for one in wrong)
