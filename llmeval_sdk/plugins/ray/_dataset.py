"""Opens what Ray is to evaluate: Parquet files, or a Dataset of the app."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Any, NamedTuple

from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.model.fields import FIELD_OF
from llmeval_sdk.offline.data.exported import is_exported
from llmeval_sdk.offline.data.record import READERS
from llmeval_sdk.offline.data.source import is_ray_dataset
from llmeval_sdk.offline.run.work import Chosen


ROWS_OF_A_BLOCK = 10_000
PAID_ROWS_OF_A_BLOCK = 500
"""Fewer where judges are asked, so that there is something for each worker."""


class Opened(NamedTuple):
    """A Dataset, and what is known of it before it is read."""

    dataset: Any
    name: str
    """Stands before the numbers of rows in error messages; empty for data that is no file."""
    rows: int | None
    """How many there are, if that is known."""
    blocks: int | None = None
    """In how many blocks they are read, if that is known."""


def check_data(data: object) -> list[str]:
    """Return the files that are meant, none for a Dataset; before Ray is started.

    Raises:
        ConfigurationError: the data is neither a Dataset nor the path of Parquet files.
    """
    if is_ray_dataset(data):
        return []
    if not isinstance(data, (str, os.PathLike)):
        raise ConfigurationError(
            f"engine='ray' takes a ray.data.Dataset or the path of Parquet files, not "
            f"{type(data).__name__}: make one with ray.data.from_items() or from_arrow(), or leave "
            "engine= out"
        )
    path = Path(data)
    paths = sorted(path.glob("*.parquet")) if path.is_dir() else sorted(map(Path, _matching(data)))
    if not paths:
        raise ConfigurationError(f"{data}: there is no such file")
    others = [path for path in paths if path.suffix.lower() != ".parquet"]
    if others:
        raise ConfigurationError(
            f"{others[0]}: engine='ray' reads Parquet files; read others with "
            "ray.data.read_json() or read_csv() and pass the Dataset, or leave engine= out"
        )
    return [str(path.resolve()) for path in paths]


def _matching(pattern: Any) -> list[str]:
    text = os.fspath(pattern)
    return [text] if Path(text).is_file() else glob.glob(text, recursive=True)  # noqa: PTH207


def open_dataset(ray: Any, data: Any, paths: list[str], chosen: Chosen, *, paid: bool) -> Opened:
    """Open the data, of which no row is read yet but for its columns.

    The number of blocks depends on the files alone and not on the cluster: a run can be resumed on
    another one. They are read by Ray's first reader: its second one, the default since 2.60, gives
    the parts of a large file in any order and does not heed the number of blocks.

    Raises:
        DataError: a file cannot be read, or no column is one of the schema.
    """
    if not paths:
        _check_columns(data.columns() or [], "the Dataset", chosen)
        return Opened(data, "", None)
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    count = 0
    for path in paths:
        try:
            with ParquetFile(path) as file:
                count += file.metadata.num_rows
                _check_columns(file.schema_arrow.names, path, chosen)
        except (ArrowException, OSError) as error:
            raise DataError(f"{path} is not a Parquet file: {error}") from None
    size = PAID_ROWS_OF_A_BLOCK if paid else ROWS_OF_A_BLOCK
    blocks = max(1, -(-count // size))
    context = ray.data.DataContext.get_current()
    default = getattr(context, "use_datasource_v2", False)
    context.use_datasource_v2 = False
    try:
        dataset = ray.data.read_parquet(paths, override_num_blocks=blocks)
    finally:
        context.use_datasource_v2 = default
    return Opened(dataset, str(data), count, blocks)


def _check_columns(names: list[str], where: str, chosen: Chosen) -> None:
    known = [name for name in names if name in READERS]
    is_needed = not chosen.are_requested or "request" in chosen.needs
    if is_exported(dict.fromkeys(names)) or "trace" in known:
        return
    if known and ("request" in known or not is_needed):
        return
    meant = {name: FIELD_OF[name.lower()] for name in names if name.lower() in FIELD_OF}
    hint = "".join(f"; rename {name!r} to {ours!r}" for name, ours in meant.items())
    lacks = "the column 'request' is missing" if known else "no column is one of the input schema"
    raise DataError(f"{where}: {lacks}: it has {', '.join(map(repr, names)) or 'none'}{hint}")
