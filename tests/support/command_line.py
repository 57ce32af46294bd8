"""The command ``llmeval``, called in this process: a start of Python takes longer than most commands."""

import io
import os
import subprocess
import sys

import pytest

from llmeval_sdk import cli
from llmeval_sdk.pipeline import runtime


OF_THE_MACHINE = ("LLMEVAL_", "DD_", "OTEL_", "OPENAI_", "PYTHONIOENCODING", "LC_", "LANG")
"""How variables begin that a command of a test must not inherit."""


def run_command(*args, folder, env=None, keys="", terminal=False):
    """Run ``llmeval`` with a folder, variables, input and output of its own.

    With ``terminal``, its output believes that it is one. It returns what `subprocess.run` returns for the same command.
    `tests/cli/test_in_process.py` compares the two.
    """
    output, errors = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    output.isatty = lambda: terminal
    with pytest.MonkeyPatch.context() as patch, runtime.isolated():
        patch.chdir(folder)
        for name in [name for name in os.environ if name.startswith(OF_THE_MACHINE)]:
            patch.delenv(name)
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        patch.setattr(sys, "stdin", io.StringIO(keys))
        patch.setattr(sys, "stdout", output)
        patch.setattr(sys, "stderr", errors)
        try:
            code = cli.main([*map(str, args)])
        except SystemExit as ended:
            code = ended.code
    return subprocess.CompletedProcess(args, code, _text_of(output), _text_of(errors))


def _text_of(stream):
    stream.flush()
    return stream.buffer.getvalue().decode()
