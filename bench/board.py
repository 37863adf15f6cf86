"""The rows of the table: what was to be reached, what was measured, and the verdict."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

SECTIONS = {
    "S1": "bf16 with all counts, given output, 1 thread",
    "S2": "f16 likewise",
    "S3": "new result, 16 M values",
    "S4": "whole Python call, 1,024 values, with counts",
    "S5": "awkward data, 1 M values",
    "S6": "crc32",
    "S7": "save_file, 1 GiB of f32 to bf16",
    "S8": "dmexp export, whole process",
    "S9": "start-up",
    "S10": "safe_open",
    "S11": "load_file, bf16 to f32, checked",
    "S12": "checksum and verify of a 512 MiB payload",
    "S13": "growth",
    "S14": "two threads",
}


@dataclass(frozen=True)
class Row:
    """One measurement. ``seconds`` are the medians behind ``value``."""

    section: str
    what: str
    value: float | None
    target: float | None
    sense: Literal["at least", "at most"]
    unit: str
    peer: str
    seconds: dict[str, float]
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.value is None:
            return f"not measured: {self.note}"
        if self.target is None:
            return "for information"
        good = self.value >= self.target if self.sense == "at least" else self.value <= self.target
        return "met" if good else "MISSED"


class Board:
    """Collects rows over a whole run."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def at_least(
        self, section: str, what: str, value: float, target: float | None, **more: Any
    ) -> None:
        """A row where more is better: mostly "times as fast as the peer"."""
        self._add(section, what, value, target, "at least", more)

    def at_most(
        self, section: str, what: str, value: float, target: float | None, **more: Any
    ) -> None:
        """A row where less is better: a share of the peer's time, or a time, or bytes."""
        self._add(section, what, value, target, "at most", more)

    def missing(self, section: str, what: str, why: str) -> None:
        """A row that this machine cannot measure."""
        self.rows.append(Row(section, what, None, None, "at least", "", "", {}, why))

    def _add(
        self,
        section: str,
        what: str,
        value: float,
        target: float | None,
        sense: Literal["at least", "at most"],
        more: dict[str, Any],
    ) -> None:
        row = Row(
            section,
            what,
            value,
            target,
            sense,
            more.get("unit", "x"),
            more.get("peer", ""),
            more.get("seconds", {}),
            more.get("note", ""),
        )
        self.rows.append(row)

    def sorted(self) -> list[Row]:
        order = [*SECTIONS, "build"]
        return sorted(self.rows, key=lambda row: order.index(row.section))

    def table(self, *, verdicts: bool = True) -> str:
        """The rows as a Markdown table."""
        lines = ["| | work | against | target | measured | verdict |", "|---|---|---|---|---|---|"]
        for row in self.sorted():
            verdict = row.verdict if verdicts else "not judged"
            lines.append(
                f"| {row.section} | {row.what} | {row.peer} | {_target(row)} | {_value(row)} "
                f"| {verdict} |"
            )
        return "\n".join(lines)

    def write(self, path: Path, machine: dict[str, Any]) -> None:
        """The rows and the machine as JSON."""
        rows = [{**asdict(row), "verdict": row.verdict} for row in self.sorted()]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")

    def put_into(self, readme: Path, machine: dict[str, Any]) -> None:
        """The machine and the table between the marks in the README."""
        versions = ", ".join(f"{name} {found}" for name, found in machine["versions"].items())
        gibibytes = (machine["memory_bytes"] or 0) / 2**30
        lines = [
            f"{machine['date']}: {machine['cpu']}, {machine['cpus']} CPUs, {gibibytes:.0f} GiB of "
            f"memory, tier `{machine['instruction_set']}`, {machine['system']}, "
            f"Python {machine['python']}; {versions}.",
            "",
            self.table(),
        ]
        marks = r"(<!-- latest run -->\n).*?(<!-- end -->)"
        body = "\n".join(lines) + "\n"
        text = readme.read_text("utf-8")
        text = re.sub(marks, lambda found: found[1] + body + found[2], text, flags=re.DOTALL)
        readme.write_text(text, "utf-8")


def _target(row: Row) -> str:
    if row.target is None:
        return ""
    sign = "≥" if row.sense == "at least" else "≤"
    return f"{sign} {row.target:g} {_unit(row)}".strip()


def _value(row: Row) -> str:
    if row.value is None:
        return ""
    digits = f"{row.value:.0f}" if row.value >= 100 else f"{row.value:.3g}"
    text = f"{digits} {_unit(row)}".strip()
    return f"{text} ({row.note})" if row.note else text


def _unit(row: Row) -> str:
    return "×" if row.unit == "x" else row.unit
