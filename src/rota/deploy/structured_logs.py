"""Logs of `rota serve` and `rota agent`: lines for people, or one JSON object per line with the ids that it is about.

A call says what its line is about with `extra=about(job=17, node="a")`; text shows the sentence alone.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from datetime import datetime, timezone
from enum import Enum
from typing import Any

TEXT = "text"
JSON = "json"
FORMATS = (TEXT, JSON)
_TEXT_FORMAT = "%(asctime)s %(levelname)s %(message)s"
_ATTRIBUTE = "rota"


def about(**ids: Any) -> dict[str, Any]:
    """For `extra=` of a log call: job, epoch, tenant, node or round that a line is about."""
    return {_ATTRIBUTE: ids}


class JsonLines(logging.Formatter):
    """One line per record: time, level, logger, message, the ids, and the traceback if there is one."""

    def __init__(self, common: Mapping[str, Any] | None = None) -> None:
        """`common` is in every line, as it is when the line is written."""
        super().__init__()
        self._common = {} if common is None else common

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        moment = datetime.fromtimestamp(record.created, timezone.utc)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._common,
            **getattr(record, _ATTRIBUTE, {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps({name: _finite(value) for name, value in line.items()}, default=_plain, ensure_ascii=True)


def _finite(value: Any) -> Any:
    """JSON has no infinity and no NaN."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else str(value)


def configure(level: str, log_format: str, common: Mapping[str, Any] | None = None) -> None:
    """Send what is logged to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines(common) if log_format == JSON else logging.Formatter(_TEXT_FORMAT))
    logging.basicConfig(level=level.upper(), handlers=[handler])


def format_in_use() -> str:
    """How this process logs, for those that it starts and that share its standard error."""
    formatters = [handler.formatter for handler in logging.getLogger().handlers]
    return JSON if any(isinstance(formatter, JsonLines) for formatter in formatters) else TEXT
