# ruff: noqa: N999 - PyInstaller runs it by this name
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires

from packaging.requirements import Requirement  # type: ignore[import-not-found, unused-ignore]
from PyInstaller.utils.hooks import (  # type: ignore[import-untyped, import-not-found, unused-ignore]
    collect_data_files,
    collect_submodules,
    copy_metadata,
)


_DISTRIBUTION = "llmeval-inprocess"
_NOT_IN_AN_APP = ("llmeval_sdk.process._pyinstaller", "llmeval_sdk.testing.pytest_plugin")

# Evaluators, exporters, plugins and commands are loaded by their names, and read files beside them.
hiddenimports = collect_submodules(
    "llmeval_sdk", filter=lambda name: not name.startswith(_NOT_IN_AN_APP)
)
datas = collect_data_files("llmeval_sdk") + copy_metadata(_DISTRIBUTION)
# `llmeval doctor` asks for the versions of what the package and its extras need.
for _name in {Requirement(line).name for line in requires(_DISTRIBUTION) or ()}:
    with suppress(PackageNotFoundError):
        datas += copy_metadata(_name)
