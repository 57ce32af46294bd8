"""The name under which this package is installed, which is not the name that it is imported by."""

from __future__ import annotations


DISTRIBUTION = "llmeval-inprocess"
NAMESAKE = "llmeval-sdk"
"""Another project's client on the package index. Whoever derives the name to install from the name
to import gets that one."""


def installed(distribution: str) -> str | None:
    """Return the version of an installed distribution, or ``None``."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def release() -> str:
    """Return the version of this package; ``"0"`` where it runs from a folder, not installed."""
    return installed(DISTRIBUTION) or "0"


def namesake_warning() -> str | None:
    """Return what to say where the other project's package is installed beside this one."""
    version = installed(NAMESAKE)
    if version is None:
        return None
    return (
        f"{NAMESAKE} {version} is installed too. It is another project's package, and nothing here "
        f"uses it: this one is {DISTRIBUTION}. If you did not mean to install it, pip uninstall "
        f"{NAMESAKE}"
    )
