"""Every Python block of the README runs, and its settings table is the table of config.py."""

import pathlib
import re

import pytest

from llmeval_sdk import config, registry
from llmeval_sdk.testing import judge_server


README = (pathlib.Path(__file__).parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("code", BLOCKS, ids=[block.splitlines()[2][:40] for block in BLOCKS])
def test_a_block_of_the_readme_runs(code, monkeypatch, capsys):
    """What the README shows works as it stands, without a network."""
    before = set(registry._own)
    with judge_server.JudgeServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        try:
            exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
        finally:
            for name in set(registry._own) - before:
                registry.forget(name)
    if "print" in code:
        assert capsys.readouterr().out.strip()


def test_the_quickstart_prints_what_it_promises(capsys):
    """The first block scores before the answer and delivers everything."""
    exec(compile(BLOCKS[0], "README.md", "exec"), {"__name__": "readme"})
    out = capsys.readouterr().out
    assert "looks relevant: acceptable" in out or "looks relevant: good" in out
    assert int(out.split("delivered:")[1]) >= 5
    assert len(BLOCKS[0].strip().splitlines()) <= 22


def test_the_settings_table_is_printed_from_config():
    """`python -m llmeval_sdk.config` prints what stands in the README."""
    found = README.split("checked by a test -->\n")[1].split("<!-- end of settings")[0]
    assert found == config.table()


def test_every_reason_is_explained():
    """The README says of each not-run reason what it means."""
    from llmeval_sdk.policy.admission import NOT_RUN_REASONS

    missing = [reason for reason in NOT_RUN_REASONS if f"`{reason}`" not in README]
    assert missing == []
