"""Which engine evaluates, and what is refused before it is started."""

from importlib.util import find_spec

import pytest
from golden import golden

import llmeval_sdk as llmeval
from llmeval_sdk.cli import main
from llmeval_sdk.errors import ConfigurationError, MissingExtraError


pytestmark = pytest.mark.plugin("ray")


pa = pytest.importorskip("pyarrow")


@pytest.fixture
def parquet(tmp_path):
    from pyarrow.parquet import write_table

    write_table(pa.Table.from_pylist(golden()), tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"engine": "spark"}, "there is no engine 'spark'"),
        ({"workers": 2}, "workers= .* is for engine='ray'"),
        ({"engine": "ray", "workers": 0}, "workers must be a whole number from 1 on"),
        ({"engine": "ray", "model": len}, "rows that have answers"),
        ({"engine": "ray", "exporters": ["memory"]}, "with the local engine alone"),
        ({"engine": "ray", "resume": True}, "resume= needs the folder"),
    ],
)
def test_options_that_make_no_sense_are_refused(parquet, options, said):
    """With a sentence that says what to do; Ray is not even imported."""
    with pytest.raises(ConfigurationError, match=said):
        llmeval.evaluate(parquet, progress=False, **options)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("none-*.parquet", "there is no such file"),
        ("rows.jsonl", "reads Parquet files"),
        ([{"request": "q"}], "takes a ray.data.Dataset or the path"),
    ],
)
def test_data_that_ray_does_not_take_is_refused(tmp_path, monkeypatch, data, said):
    """It says how to make a Dataset of it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text("{}\n")
    with pytest.raises(ConfigurationError, match=said):
        llmeval.evaluate(data, engine="ray", progress=False)


@pytest.mark.parametrize("option", ["--from-store", "--estimate"])
def test_the_command_refuses_what_reads_on_this_machine_alone(parquet, option, capsys):
    """Before anything is done."""
    rest = [] if option == "--from-store" else [str(parquet)]
    assert main(["evaluate", *rest, option, "--engine", "ray"]) == 2
    assert f"{option} reads on this machine alone" in capsys.readouterr().err


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_the_error_has_the_line_that_installs_it(parquet):
    """It is no part of `all`."""
    with pytest.raises(MissingExtraError, match=r"pip install 'llmeval-inprocess\[ray\]'"):
        llmeval.evaluate(parquet, engine="ray", progress=False)
