"""What each dtype does to a model's answers: export, read back, run, compare."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tomli

from .._export import choose, export, require_floats
from ..errors import DmexpError, InvalidArgumentError, NonFiniteError
from ..loaders import Source, SourceOptions, open_source
from .compare import compare_window
from .config import ModelConfig, read_config
from .linear import widened
from .loading import find_tokenizer, read_model
from .model import Model
from .reference import Continued, Reference, greedy
from .report import Continuation, DivergenceReport, Row
from .tokenizer import Tokenizer
from .weights import build_model

DTYPES = ("f32", "f16", "bf16")

Progress = Callable[[int, int], object]
"""Called with steps done and steps in all; a step is about one window through one model."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is measured.

    Parameters
    ----------
    windows, window_tokens
        How many pieces of the text, evenly spaced, and how long each is.
    greedy_windows, greedy_tokens
        How many of the windows are continued, and by how much.
    include, exclude
        Patterns for tensor names, as `dmexp export` takes them.
    tokenizer
        A ``tokenizer.json`` or its directory in place of the source's own.
    config
        The model's config, where the source has none beside it.
    scratch
        Where the temporary directory is made; room for 4 bytes a parameter.
    """

    windows: int = 16
    window_tokens: int = 256
    greedy_windows: int = 4
    greedy_tokens: int = 64
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    tokenizer: Path | None = None
    config: Path | None = None
    scratch: Path | None = None


def divergence(
    source_path: Path,
    eval_path: Path,
    settings: Settings = Settings(),
    *,
    progress: Progress | None = None,
) -> DivergenceReport:
    """Measure how far f32, f16 and bf16 exports of a model answer from the model itself.

    Each export goes through the ordinary writer into a temporary directory and back through the
    ordinary reader. Nothing of the user's is written to or removed. Two models are in memory at a
    time, in f32.

    Raises
    ------
    InvalidArgumentError
        The text is shorter than one window, or a window longer than the model's positions.
    UnsupportedError
        A model that the runtime does not have.
    DmexpError, OSError
        As `open_source` and `export`. A dtype that cannot hold the weights is no error: its row
        says so.
    """
    began = time.monotonic()
    options = SourceOptions(config=settings.config)
    with open_source(source_path, options) as source:
        notices = list(source.info.notices)
        model, tokenizer = _model_of(source, settings, notices)
        windows, starts, length = _windows(model.config, tokenizer, eval_path, settings)
        reference = Reference(model, windows, starts)
        report = DivergenceReport(
            source=str(source_path),
            kind=source.info.kind,
            source_bytes=source.info.weight_bytes,
            model_type=model.config.model_type,
            num_params=0,
            text=str(eval_path),
            text_tokens=length,
            window_tokens=settings.window_tokens,
            starts=starts,
            peakedness=reference.peakedness,
            rows=[],
            notices=notices,
        )
        count = min(settings.greedy_windows, len(windows))
        steps = _Steps(progress, len(windows), count)
        continued = []
        for index in range(count):
            new = min(settings.greedy_tokens, model.config.max_positions - 1)
            continued.append(reference.continued(index * len(windows) // count, new))
            steps.step(2)
        for dtype in DTYPES:
            row = _measure(source, dtype, settings, reference, continued, steps)
            report.rows.append(row)
            report.num_params = row.num_params or report.num_params
    report.seconds = time.monotonic() - began
    return report


class _Steps:
    """Counts windows through models, for whoever watches."""

    def __init__(self, progress: Progress | None, windows: int, greedy: int) -> None:
        self._progress = progress or (lambda done, total: None)
        self._per_dtype = 2 * windows + 2 * greedy
        self._total = 2 * greedy + len(DTYPES) * self._per_dtype
        self._done = 0
        self.step(0)

    def step(self, count: int = 1) -> None:
        self._done += count
        self._progress(self._done, self._total)

    def skip_dtype(self) -> None:
        self.step(self._per_dtype)


def _model_of(source: Source, settings: Settings, notices: list[str]) -> tuple[Model, Tokenizer]:
    """The source's own weights in f32, and the tokenizer."""
    table = tomli.loads(source.info.config)
    path = source.info.path
    try:
        config = read_config(table)
        entries = choose(source.entries(), settings.include, settings.exclude, notices)
        require_floats(entries, source)
        model = build_model(
            config, {each.name: widened(source.read(each.name)) for each in entries}
        )
        tokenizer = find_tokenizer(path, source.info.metadata, config, settings.tokenizer)
    except DmexpError as error:
        raise error.with_path(str(path)) from error.__cause__
    return model, tokenizer


def _windows(
    config: ModelConfig, tokenizer: Tokenizer, path: Path, settings: Settings
) -> tuple[list[list[int]], list[int], int]:
    """Evenly spaced pieces of the text as token ids, where they start, and the text's length.

    Where texts begin with a token of their own, every window does, and is that much shorter.
    """
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    begin = tokenizer.encode("")
    ids = tokenizer.encode(text, special=False)
    size = settings.window_tokens
    if size > config.max_positions:
        raise InvalidArgumentError(
            f"a window of {size} tokens does not fit the model's {config.max_positions} positions: "
            "take a smaller --window-tokens.",
            argument="window_tokens",
            found=size,
            limit=config.max_positions,
        )
    inner = size - len(begin)
    if inner < 1 or len(ids) < inner:
        raise InvalidArgumentError(
            f"the text has {len(ids)} tokens, too few for one window of {size}: take a longer text "
            "or a smaller --window-tokens.",
            path=str(path),
            argument="eval",
            found=len(ids),
            expected=size,
        )
    count = min(settings.windows, len(ids) // inner)
    stride = (len(ids) - inner) // count
    starts = [index * stride for index in range(count)]
    return [begin + ids[start : start + inner] for start in starts], starts, len(ids)


def _measure(
    source: Source,
    dtype: str,
    settings: Settings,
    reference: Reference,
    continued: Sequence[Continued],
    steps: _Steps,
) -> Row:
    """One dtype: export, read back, compare. The file is gone afterwards."""
    with tempfile.TemporaryDirectory(
        prefix="dmexp-divergence-", dir=settings.scratch, ignore_cleanup_errors=True
    ) as directory:
        out = Path(directory) / f"model.{dtype}.dmexp"
        try:
            report = export(
                source,
                out,
                dtype=dtype,
                include=settings.include,
                exclude=settings.exclude,
                sync=False,
            )
        except NonFiniteError as error:
            steps.skip_dtype()
            return Row(dtype, refused=error.message)
        row = Row(
            dtype,
            num_params=report.num_params,
            file_bytes=report.file_bytes,
            ratio=source.info.weight_bytes / report.file_bytes,
            max_abs=report.max_abs,
            min_nonzero_abs=report.min_nonzero_abs,
            flushed=report.flushed,
            subnormal=report.subnormal,
        )
        _, _, model = read_model(out)
        _compare(reference, model, row, steps)
        _continue(model, continued, row, steps)
        return row


def _compare(reference: Reference, model: Model, row: Row, steps: _Steps) -> None:
    total = np.zeros(len(reference.windows[0]))
    for index, window in enumerate(reference.windows):
        ours = reference.logits(index)
        steps.step()
        total += compare_window(ours, model.logits(window, every=True), row.last, row.every)
        steps.step()
    row.kl_by_position = (total / len(reference.windows)).tolist()


def _continue(model: Model, continued: Sequence[Continued], row: Row, steps: _Steps) -> None:
    for each in continued:
        tokens, _ = greedy(model, each.prompt, len(each.tokens))
        pairs = zip(each.tokens, tokens, strict=True)
        differs = next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), None)
        margin = None if differs is None else each.margins[differs]
        row.greedy.append(Continuation(each.start, len(tokens), differs, margin))
        steps.step(2)
