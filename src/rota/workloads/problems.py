"""What is wrong with a trace: the first error ends reading, unless somebody collects them all."""

from __future__ import annotations

from dataclasses import dataclass, field

from rota.core.errors import TraceError


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing to say about a trace."""

    path: str
    line: int
    """0 if it is about the whole file."""
    column: str | None
    value: str | None
    what: str
    fix: str
    error: bool
    """Whether the trace cannot be used because of it; a remark otherwise."""

    @property
    def message(self) -> str:
        """What is wrong and what to do."""
        return f"{self.what}; {self.fix}" if self.fix else self.what

    def __str__(self) -> str:
        where = (f"{self.path}:{self.line}" if self.line else self.path) + (
            f", column {self.column}" if self.column else ""
        )
        return f"{where}: {self.message}"


@dataclass
class Problems:
    """Where readers say what is wrong. This one raises the first error and keeps remarks."""

    path: str
    remarks: list[Problem] = field(default_factory=list)

    def error(
        self,
        line: int,
        what: str,
        fix: str = "",
        column: str | None = None,
        value: str | None = None,
    ) -> None:
        """Something because of which the trace cannot be used."""
        problem = Problem(
            path=self.path,
            line=line,
            column=column,
            value=value,
            what=what,
            fix=fix,
            error=True,
        )
        raise TraceError(self.path, line, problem.message, column)

    def remark(
        self,
        line: int,
        what: str,
        fix: str = "",
        column: str | None = None,
        value: str | None = None,
    ) -> None:
        """Something worth knowing."""
        self.remarks.append(
            Problem(
                path=self.path,
                line=line,
                column=column,
                value=value,
                what=what,
                fix=fix,
                error=False,
            )
        )


@dataclass
class Collected(Problems):
    """Keeps errors instead of raising them, up to a number; beyond that it only counts."""

    most: int = 100
    errors: list[Problem] = field(default_factory=list)
    count: int = 0
    """All errors, kept or not."""

    def error(
        self,
        line: int,
        what: str,
        fix: str = "",
        column: str | None = None,
        value: str | None = None,
    ) -> None:
        """Keep it, or count it if there are many already."""
        self.count += 1
        if len(self.errors) < self.most:
            self.errors.append(
                Problem(
                    path=self.path,
                    line=line,
                    column=column,
                    value=value,
                    what=what,
                    fix=fix,
                    error=True,
                )
            )
