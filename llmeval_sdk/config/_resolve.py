"""The environment and the options of `configure`, made into `Settings`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, TypeVar

from llmeval_sdk.config.reading import concealed, is_secret, names
from llmeval_sdk.config.settings import Settings, areas, rows
from llmeval_sdk.errors import ConfigurationError, nearest


_Table = TypeVar("_Table")


def from_environment(
    environ: Mapping[str, str] | None = None, *, problems: list[str] | None = None, **options: Any
) -> Settings:
    """Resolve the settings: options win over the environment, and that over the defaults.

    If a variable has a bad value, its setting keeps the default and ``problems`` gets a line about
    it. Without ``problems``, `ConfigurationError` is raised.
    """
    env = _environment(environ)
    values = _checked(options)
    wanted = [row for row in rows() if row.name not in values]
    values.update(_read(wanted, env, problems))
    if problems is not None:
        problems.extend(_misspelt(env))
    core, extensions = {}, {}
    for table in areas().values():
        own = {row.name: values[row.name] for row in fields(table) if row.name in values}
        if issubclass(Settings, table):
            core.update(own)
        elif own:
            extensions[table] = table(**own)
    return Settings(**core, extensions=extensions)


def _checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that code gives a value to, with its secrets concealed."""
    known = {row.name: row for row in rows()}
    values = {}
    for name, value in options.items():
        if name not in known:
            raise ConfigurationError(f"unknown setting {name!r}: {nearest(name, known)}")
        if value is None:
            continue
        try:
            values[name] = concealed(value, known[name].metadata["read"])
        except ValueError as problem:  # only a secret is read here
            raise ConfigurationError(f"{name}=***: {problem}") from None
    return values


def read(
    table: type[_Table],
    environ: Mapping[str, str] | None = None,
    *,
    problems: list[str] | None = None,
) -> _Table:
    """Read a table of settings that belongs to another room, such as an exporter's own.

    Bad values are treated as in `from_environment`.
    """
    return table(**_read(fields(table), _environment(environ), problems))  # type: ignore[arg-type]


def in_experiment(name: str) -> dict[str, Any]:
    """Return the settings that keep the records of an offline experiment apart from the app's."""
    wanted = {row.name: row.metadata["in_experiment"] for row in rows()}
    return {
        setting: text.replace("{name}", name)
        for setting, text in wanted.items()
        if text is not None
    }


def _environment(environ: Mapping[str, str] | None) -> Mapping[str, str]:
    return os.environ if environ is None else environ  # noqa: TID251 - the one reader


def _read(
    rows: Iterable[Any], env: Mapping[str, str], problems: list[str] | None
) -> dict[str, Any]:
    """Read the rows that the environment sets."""
    values = {}
    for row in rows:
        for variable in row.metadata["env"]:
            text = env.get(variable)
            if text is None or (not text.strip() and row.metadata["read"] is not names):
                continue
            try:
                values[row.name] = row.metadata["read"](text)
            except ValueError as problem:
                shown = "***" if is_secret(row.metadata["read"]) else repr(text[:80])
                line = f"{variable}={shown}: {problem}; using the default"
                if problems is None:
                    raise ConfigurationError(line) from None
                problems.append(line)
            break
    return values


def _misspelt(env: Mapping[str, str]) -> list[str]:
    ours = {variable for row in rows() for variable in row.metadata["env"]}
    return [
        f"{name} is not a setting: {nearest(name, (n for n in ours if n.startswith('LLMEVAL_')))}"
        for name in sorted(env)
        if name.startswith("LLMEVAL_") and name not in ours
    ]


def value_of(settings: Settings, name: str) -> Any:
    """Return the value of a setting by its name, whichever table has it; ``None`` if none has."""
    for table in areas().values():
        if any(row.name == name for row in fields(table)):
            return getattr(settings if issubclass(Settings, table) else settings.of(table), name)
    return None


def source_of(name: str, environ: Mapping[str, str] | None = None) -> str:
    """Say where a setting's value came from: a variable's name, or ``default``."""
    env = _environment(environ)
    row = next(row for row in rows() if row.name == name)
    return next((variable for variable in row.metadata["env"] if env.get(variable)), "default")


def variables(prefix: str, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the variables that are set and whose names begin with a prefix."""
    env = _environment(environ)
    return tuple(sorted(name for name in env if name.startswith(prefix)))


@contextmanager
def hidden(name: str) -> Iterator[None]:
    """Hide a variable while a library is imported that its value would break."""
    env = os.environ  # noqa: TID251 - the one reader
    text = env.pop(name, None)
    try:
        yield
    finally:
        if text is not None:
            env[name] = text


def openai_headers(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the headers that tell OpenAI whose request it is, as the environment has them.

    The ``openai`` client sends the same ones: the organization, the project, and custom headers,
    such as those for a gateway.
    """
    env = _environment(environ)
    own = (line.partition(":") for line in env.get("OPENAI_CUSTOM_HEADERS", "").splitlines())
    headers = {
        "openai-organization": env.get("OPENAI_ORG_ID", ""),
        "openai-project": env.get("OPENAI_PROJECT_ID", ""),
        **{name.strip().lower(): value.strip() for name, _, value in own},
    }
    return {name: value for name, value in headers.items() if name and value}
