"""The shipped data: small, dated, licensed, and what the code expects of it."""

import json
import subprocess
import sys
from importlib.resources import files

import pytest

from llmeval_sdk.heuristics.risk import _features, _words, retrieval
from llmeval_sdk.heuristics.risk._text import stem
from llmeval_sdk.heuristics.risk._words import Additive, Table


FILES = sorted(
    (path for path in (files("llmeval_sdk.heuristics.risk") / "data").iterdir()),
    key=lambda path: path.name,
)
PARTS = {
    ("groundedness", "english_sentence"): _features.SENTENCE_FEATURES,
    ("groundedness", "english_response"): _features.RESPONSE_FEATURES,
    ("groundedness", "other_sentence"): _features.SENTENCE_FEATURES,
    ("groundedness", "other_response"): _features.RESPONSE_FEATURES,
    ("retrieval", "text"): retrieval.QUERY_NAMES,
    ("retrieval", "hybrid"): (*retrieval.QUERY_NAMES, *retrieval.RANKING_NAMES),
}


def test_the_files_are_there_and_small():
    """Half a megabyte at most, over all of them."""
    assert [path.name for path in FILES] == [
        "background.json", "groundedness.json", "negations.txt", "number_words.txt",
        "refusals.txt", "retrieval.json", "stop_words.txt", "units.txt",
    ]  # fmt: skip
    assert sum(len(path.read_bytes()) for path in FILES) < 500_000


MODELS = [path for path in FILES if path.name.endswith(".json")]
LISTS = [path for path in FILES if path.name.endswith(".txt")]


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.name)
def test_each_list_says_who_wrote_it(path):
    """The lists of words are our own."""
    assert path.read_text(encoding="utf-8").splitlines()[0].endswith("written for this project")


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.name)
def test_each_file_says_what_it_is_made_of(path):
    """Version, date, training data and licence stand inside."""
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["version"]
    assert data["date"].startswith("20")
    assert len(data["training_data"]) > 20
    assert "licence" in data["licence"]


@pytest.mark.parametrize(("file", "part"), PARTS)
def test_models_use_known_features_and_have_a_step_between_all_edges(file, part):
    """A table that does not fit would raise or mislead only on some values."""
    model = _words.model(file, part)
    assert model.features.keys() <= set(PARTS[file, part])
    for edges, steps in model.features.values():
        assert edges == sorted(edges)
        assert len(steps) == len(edges) + 1


def test_rare_words_weigh_more_than_common_ones():
    """Words the table does not hold weigh most."""
    weigh = _words.weigher(english=True)
    assert weigh(stem("people")) < weigh(stem("lighthouse")) <= weigh("xyzzyplugh")


def test_a_value_on_an_edge_takes_the_step_below():
    """As the trees were fitted: at most the threshold goes left."""
    model = Additive(0.0, {"x": Table([1.0], [-2.0, 2.0])})
    assert model.risk({"x": 1.0}) < 0.5 < model.risk({"x": 1.1})


def test_importing_the_scores_reads_no_data_and_no_third_party_module():
    """Data is read at first use; numpy is not needed at all."""
    code = (
        "import sys; from llmeval_sdk.heuristics.risk import _words, groundedness, retrieval;"
        "assert not {'numpy', 'sklearn', 'scipy', 'rapidfuzz'} & set(sys.modules);"
        "assert _words.data.cache_info().currsize == 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
