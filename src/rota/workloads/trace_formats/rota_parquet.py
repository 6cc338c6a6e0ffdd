"""Our own trace as Parquet: the columns of `csv` with types, small and fast.

Needs pyarrow (the extra `parquet`).
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from typing import Any

from rota.core.errors import ConfigError, TraceError
from rota.core.jobs import Jobs
from rota.workloads.files import TraceFile
from rota.workloads.queueing import TEXTS as QUEUE_TEXTS
from rota.workloads.registry import EVERYTHING, formats
from rota.workloads.rows import TraceRows
from rota.workloads.trace_formats.rota_csv import LAUNCH, REQUIRED, TYPES, from_rows, text_columns
from rota.workloads.type_rules import TypeRules

WHOLE = ("gpus", "needs_data_dir", "array_limit")
TEXTS = ("job_id", "profile", "tenant", *TYPES, *QUEUE_TEXTS, *LAUNCH[:3])


@formats.register("parquet")
class ParquetTrace:
    """The columns of csv as a Parquet file. Needs pyarrow (`pip install '.[parquet]' in a checkout of Rota`)."""

    holds = EVERYTHING

    def __init__(self, *, reference: str | None = None, elsewhere: str = "never") -> None:
        self._reference = reference
        self._types = TypeRules(elsewhere=elsewhere)

    def recognises(self, first_line: str) -> bool:
        """Whether these are the first bytes of a Parquet file."""
        return first_line.startswith("PAR1")

    def read(self, file: TraceFile) -> Jobs:
        """The jobs of a file; line N in a message is row N."""
        arrow = _pyarrow()
        try:
            table = arrow.parquet.read_table(io.BytesIO(file.data))
            values = {name: table.column(name).to_pylist() for name in table.column_names}
        except (arrow.ArrowException, OSError, UnicodeDecodeError) as problem:  # names and texts are decoded late
            fix = "is it complete?"
            raise TraceError(file.path, 1, f"not a Parquet file: {problem}; {fix}") from None
        for name in REQUIRED:
            if name not in values:
                fix = f"needed are {', '.join(REQUIRED)}"
                raise TraceError(file.path, 1, f"there is no column {name!r}; {fix}")
        if not table.num_rows:
            raise TraceError(file.path, 1, "the file has no rows; give at least one job")
        cells = {name: [_text(value) for value in column] for name, column in values.items()}
        return from_rows(
            TraceRows(
                problems=file.problems,
                lines=range(1, table.num_rows + 1),
                cells=cells,
            ),
            self._reference,
            self._types,
        )

    def write(self, jobs: Jobs, *, exact: bool) -> Iterator[bytes]:
        """One row per job; columns that say nothing are left out."""
        arrow = _pyarrow()
        columns = {}
        for name, texts in text_columns(jobs).items():
            columns[name] = arrow.array([_value(name, text) for text in texts])
        buffer = io.BytesIO()
        arrow.parquet.write_table(arrow.table(columns), buffer, compression="zstd")
        yield buffer.getvalue()


def _pyarrow() -> Any:
    try:
        import pyarrow as pa  # an extra
        import pyarrow.parquet
    except ImportError as error:
        fix = "install it with: pip install '.[parquet]' in a checkout of Rota"
        raise ConfigError(f"Parquet needs pyarrow; {fix}") from error
    return pa


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(value)
    return "" if value is None else str(value)


def _value(name: str, text: str) -> str | int | float | None:
    if name in TEXTS:
        return text
    if not text:
        return None
    return int(text) if name in WHOLE else float(text)
