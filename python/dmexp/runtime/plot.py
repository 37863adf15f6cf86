"""The picture of a divergence report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import InvalidArgumentError, MissingDependencyError, TargetExistsError
from .report import DivergenceReport

COLOURS = {"f32": "#7f7f7f", "f16": "#1f77b4", "bf16": "#d95f02"}
SUFFIXES = (".png", ".pdf", ".svg")


def require_plot(path: Path) -> None:
    """Refuse, before the long work, a plot that could not be written.

    Raises
    ------
    TargetExistsError, InvalidArgumentError, MissingDependencyError
    """
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidArgumentError(
            f"a plot is written as {', '.join(SUFFIXES)}; {path.name!r} is none of them.",
            argument="plot",
            known=list(SUFFIXES),
        )
    if path.exists():
        raise TargetExistsError(f"{path} exists. Name another file.", target=str(path))
    _figure()


def plot(report: DivergenceReport, path: Path) -> None:
    """Write the report as a picture: KL by position, and the averages.

    Raises
    ------
    TargetExistsError
        A file of that name came up in the meantime.
    """
    figure = _figure()(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    rows = [row for row in report.rows if row.refused is None]
    for row in rows:
        if max(row.kl_by_position, default=0.0) > 0:
            left.plot(row.kl_by_position, label=row.dtype, color=COLOURS[row.dtype], linewidth=1)
    left.set_xlabel("position in the window")
    left.set_ylabel(f"KL from the source, nats (mean of {len(report.starts)} windows)")
    if left.lines:
        left.set_yscale("log")
        left.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    else:
        left.text(0.5, 0.5, "every export is exact", ha="center", transform=left.transAxes)
    names = [row.dtype for row in rows]
    bars = right.bar(
        names, [row.every.max_delta for row in rows], color=[COLOURS[name] for name in names]
    )
    right.bar_label(bars, [f"{row.every.max_delta:.3g}" for row in rows])
    right.set_ylabel("largest logit difference")
    # A file name is no markup: mathtext would take a dollar sign for one.
    title = f"{Path(report.source).name}: {report.num_params:,} parameters".replace("$", r"\$")
    figure.suptitle(title)
    with path.open("xb") as file:
        figure.savefig(file, format=path.suffix[1:].lower(), dpi=150)


def _figure() -> Any:
    """The figure class alone: no window system is touched and no global state is made."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependencyError(
            "--plot needs the matplotlib package: pip install 'dmexp[plot]'.",
            package="matplotlib",
            extra="plot",
        ) from None
    return Figure
