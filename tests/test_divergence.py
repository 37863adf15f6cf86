"""``dmexp divergence``: an independent computation, exactness, refusals, and the user's files."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file as save_safetensors

from dmexp.cli import main
from dmexp.errors import DmexpError, InvalidArgumentError, MissingDependencyError, TargetExistsError
from dmexp.runtime import reference
from dmexp.runtime.compare import Agreement, Peakedness, compare_window, log_softmax
from dmexp.runtime.config import read_config
from dmexp.runtime.divergence import Settings, divergence
from dmexp.runtime.plot import plot, require_plot
from dmexp.runtime.report import DivergenceReport
from dmexp.runtime.weights import build_model
from runtime_util import BYTE_CONFIG, byte_weights

Capture = pytest.CaptureFixture[str]

SMALL = Settings(windows=3, window_tokens=20, greedy_windows=2, greedy_tokens=12)
TEXT = "".join(chr(97 + (i * i + i // 7) % 26) for i in range(300))


def tensors() -> dict[str, Any]:
    """Weights with values that each narrow dtype loses in its own way."""
    made = byte_weights()
    weight = made["model.layers.0.mlp.up_proj.weight"]
    weight[0, :4] = [1e-8, 3e-8, 6.2e-5, 1e-39]
    return made


def write_source(path: Path, made: dict[str, Any] | None = None, **changes: Any) -> Path:
    path.mkdir()
    config = json.dumps(BYTE_CONFIG | {"torch_dtype": "float32"} | changes)
    (path / "config.json").write_text(config)
    save_safetensors(made or tensors(), path / "model.safetensors", metadata={"format": "pt"})
    return path


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_source(tmp_path_factory.mktemp("divergence") / "model")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def report(source: Path, text: Path) -> DivergenceReport:
    return divergence(source, text, SMALL)


def row_of(report: DivergenceReport, dtype: str) -> dict[str, Any]:
    (found,) = [row for row in report.as_dict()["dtypes"] if row["dtype"] == dtype]
    return dict(found)


def test_f32_is_exactly_the_source(report: DivergenceReport) -> None:
    row = row_of(report, "f32")
    for where in ("last", "every"):
        assert {key: row[where][key] for key in row[where] if key != "positions"} == {
            "max_abs_delta": 0.0,
            "mean_abs_delta": 0.0,
            "max_kl": 0.0,
            "mean_kl": 0.0,
            "top1": 1.0,
        }
    assert [each["identical"] for each in row["greedy"]] == [True, True]
    assert row["flushed"] == 0


NARROW = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


@pytest.mark.parametrize("dtype", sorted(NARROW))
def test_numbers_are_those_of_an_independent_computation(
    report: DivergenceReport, dtype: str
) -> None:
    row = row_of(report, dtype)
    wide = tensors()
    narrow = {name: value.astype(NARROW[dtype]) for name, value in wide.items()}
    config = read_config(BYTE_CONFIG)
    ours = build_model(config, wide)
    theirs = build_model(config, {name: v.astype(np.float32) for name, v in narrow.items()})

    data = TEXT.encode()
    stride = (len(data) - 20) // 3
    assert report.starts == [0, stride, 2 * stride]
    deltas, kls, tops = [], [], []
    for start in report.starts:
        window = list(data[start : start + 20])
        p = ours.logits(window, every=True).astype(np.longdouble)
        q = theirs.logits(window, every=True).astype(np.longdouble)
        deltas.append(np.abs(p - q))
        tops.append(p.argmax(-1) == q.argmax(-1))
        logs = [x - np.log(np.exp(x).sum(-1, keepdims=True)) for x in (p, q)]
        kls.append((np.exp(logs[0]) * (logs[0] - logs[1])).sum(-1))
    for where, pick in (("every", slice(None)), ("last", slice(-1, None))):
        delta = np.concatenate([each[pick] for each in deltas])
        kl = np.concatenate([each[pick] for each in kls])
        top = np.concatenate([each[pick] for each in tops])
        found = row[where]
        assert found["positions"] == kl.size
        assert found["max_abs_delta"] == pytest.approx(float(delta.max()), rel=1e-3)
        assert found["mean_abs_delta"] == pytest.approx(float(delta.mean()), rel=1e-3)
        assert found["max_kl"] == pytest.approx(float(kl.max()), rel=1e-3)
        assert found["mean_kl"] == pytest.approx(float(kl.mean()), rel=1e-3)
        assert found["top1"] == pytest.approx(float(top.mean()))
        assert found["mean_kl"] > 0

    flat = np.concatenate([value.reshape(-1) for value in wide.values()])
    stored = np.concatenate([value.reshape(-1) for value in narrow.values()]).astype(np.float64)
    magnitudes = np.abs(stored[stored != 0])
    assert row["max_abs"] == magnitudes.max()
    assert row["min_nonzero_abs"] == magnitudes.min()
    assert row["flushed"] == int(((stored == 0) & (flat != 0)).sum())
    assert row["flushed"] == {"f16": 2, "bf16": 0}[dtype]
    smallest = float(ml_dtypes.finfo(NARROW[dtype]).smallest_normal)
    assert row["subnormal"] == int((magnitudes < smallest).sum()) > 0
    assert row["ratio"] == report.source_bytes / row["file_bytes"]


def test_a_narrower_mantissa_moves_the_answers_further(report: DivergenceReport) -> None:
    assert row_of(report, "bf16")["every"]["mean_kl"] > row_of(report, "f16")["every"]["mean_kl"]


def test_greedy_text_is_compared_token_by_token(tmp_path: Path, text: Path) -> None:
    # One direction decides, by pairs of rows that only bf16 cannot tell apart: a near-tie at every
    # step, which the first of the pair wins.
    made = tensors()
    head = made["lm_head.weight"]
    head[:] = 0
    made["model.norm.weight"][:] = 0
    made["model.norm.weight"][0] = 1
    head[[7, 9, 11, 13], 0] = [1.0, 1.001, -1.0, -1.001]
    path = write_source(tmp_path / "tie", made)
    found = divergence(path, text, SMALL)
    narrow = row_of(found, "bf16")
    assert row_of(found, "f16")["every"]["top1"] == 1.0
    assert narrow["every"]["top1"] == 0.0
    assert found.peakedness.share_below(0.01) == 1.0
    for each in narrow["greedy"]:
        assert not each["identical"]
        assert each["first_difference"] == 0
        assert 0 <= each["margin"] < 0.01


def test_a_dtype_that_cannot_hold_the_weights_has_a_row_that_says_so(
    tmp_path: Path, text: Path, capsys: Capture
) -> None:
    made = tensors()
    made["model.layers.0.mlp.down_proj.weight"][0, 0] = 70000
    path = write_source(tmp_path / "large", made)
    found = divergence(path, text, SMALL)
    row = row_of(found, "f16")
    assert set(row) == {"dtype", "refused"}
    assert "70000" in row["refused"]
    assert row_of(found, "bf16")["every"]["positions"] == 60
    options = ["--windows", "1", "--window-tokens", "20", "--greedy-windows", "0"]
    assert main(["divergence", str(path), "--eval", str(text), *options]) == 0
    assert "f16: no file, tensor" in capsys.readouterr().out


def test_a_bf16_source_is_exact_in_bf16(tmp_path: Path, text: Path) -> None:
    made = {name: value.astype(ml_dtypes.bfloat16) for name, value in byte_weights().items()}
    path = tmp_path / "bf16"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(BYTE_CONFIG | {"torch_dtype": "bfloat16"}))
    save_safetensors(made, path / "model.safetensors")
    found = divergence(path, text, SMALL)
    for dtype in ("f32", "bf16"):
        assert row_of(found, dtype)["every"]["max_abs_delta"] == 0.0
    assert row_of(found, "f32")["ratio"] < row_of(found, "bf16")["ratio"] < 1.0


def listing(directory: Path) -> dict[str, tuple[int, int]]:
    found = {}
    for path in sorted(directory.rglob("*")):
        facts = path.stat()
        found[str(path)] = (facts.st_size, facts.st_mtime_ns)
    return found


def test_nothing_of_the_users_is_touched_and_nothing_is_left(
    source: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.f32.dmexp").write_text("mine")
    monkeypatch.chdir(tmp_path)
    before = [listing(each) for each in (source, text.parent, tmp_path)]
    divergence(source, text, Settings(1, 20, 1, 2, scratch=tmp_path))
    assert [listing(each) for each in (source, text.parent, tmp_path)] == before


def test_files_are_gone_after_an_interruption(source: Path, text: Path, tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        if done > total // 2:
            assert any(tmp_path.iterdir())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        divergence(source, text, Settings(2, 20, 1, 2, scratch=tmp_path), progress=interrupt)
    assert not any(tmp_path.iterdir())


def test_progress_runs_from_nothing_to_all(source: Path, text: Path) -> None:
    calls: list[tuple[int, int]] = []
    divergence(source, text, SMALL, progress=lambda done, total: calls.append((done, total)))
    done = [each[0] for each in calls]
    total = calls[0][1]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, total)
    assert {each[1] for each in calls} == {total}


@pytest.mark.parametrize(
    ("settings", "content", "says"),
    [
        (Settings(window_tokens=20), "too short", "9 tokens, too few for one window of 20"),
        (Settings(window_tokens=20), "", "0 tokens"),
        (Settings(window_tokens=129), TEXT, "128 positions"),
    ],
)
def test_a_text_that_does_not_fit_is_refused(
    source: Path, tmp_path: Path, settings: Settings, content: str, says: str
) -> None:
    path = tmp_path / "text"
    path.write_text(content)
    with pytest.raises(InvalidArgumentError, match=says):
        divergence(source, path, settings)


def test_a_short_text_gives_fewer_windows_and_a_window_may_fill_the_model(
    source: Path, text: Path
) -> None:
    found = divergence(source, text, Settings(16, 128, 1, 4))
    assert len(found.starts) == 2
    assert row_of(found, "f16")["greedy"][0]["tokens"] == 4


def test_bytes_that_are_no_text_are_still_bytes(source: Path, tmp_path: Path) -> None:
    path = tmp_path / "binary"
    path.write_bytes(bytes(range(256)))
    assert divergence(source, path, Settings(1, 20, 0, 1)).text_tokens == 256


def test_a_model_that_the_runtime_lacks_is_refused_before_any_export(
    text: Path, tmp_path: Path
) -> None:
    path = tmp_path / "odd"
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"model_type": "rwkv", "torch_dtype": "float32"}))
    save_safetensors({"w": np.zeros(3, np.float32)}, path / "model.safetensors")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with pytest.raises(DmexpError, match="'rwkv'"):
        divergence(path, text, Settings(scratch=scratch))
    assert not any(scratch.iterdir())


def test_logits_that_are_not_kept_are_computed_again(
    source: Path, text: Path, report: DivergenceReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Room for one window of three.
    monkeypatch.setattr(reference, "KEPT_BYTES", 20 * 256 * 4 + 1)
    found = divergence(source, text, SMALL).as_dict()
    assert {**found, "seconds": 0} == {**report.as_dict(), "seconds": 0}


# Measures


def test_measures_of_equal_logits_are_zero_and_of_a_shift_too_but_for_delta() -> None:
    values = np.random.RandomState(0).standard_normal((70, 11)).astype(np.float32)
    last, every = Agreement(), Agreement()
    kls = compare_window(values, values + np.float32(0.5), last, every)
    assert kls.shape == (70,)
    assert (last.positions, every.positions) == (1, 70)
    assert every.max_delta == pytest.approx(0.5, rel=1e-6)
    assert every.mean_delta == pytest.approx(0.5, rel=1e-6)
    assert 0 <= every.max_kl < 1e-12
    assert every.top1 == 1.0


def test_kl_is_from_the_reference() -> None:
    p, q = np.array([[0.9, 0.1]]), np.array([[0.5, 0.5]])
    last, every = Agreement(), Agreement()
    compare_window(np.log(p).astype(np.float32), np.log(q).astype(np.float32), last, every)
    assert every.mean_kl == pytest.approx(0.9 * np.log(1.8) + 0.1 * np.log(0.2), rel=1e-6)


def test_peakedness_is_that_of_the_distribution() -> None:
    probabilities = np.array([[0.5, 0.25, 0.25], [0.8, 0.1, 0.1]])
    found = Peakedness()
    found.add(np.log(probabilities).astype(np.float32) + np.float32(3))
    facts = found.as_dict()
    assert facts["mean_top_probability"] == pytest.approx(0.65, rel=1e-6)
    entropies = -(probabilities * np.log(probabilities)).sum(-1)
    assert facts["mean_entropy_nats"] == pytest.approx(entropies.mean(), rel=1e-6)
    assert facts["smallest_margin"] == pytest.approx(np.log(2), rel=1e-6)
    assert found.share_below(1.0) == 0.5


def test_log_probabilities_hold_for_extreme_logits() -> None:
    logs = log_softmax(np.array([[-3e38, 0, 3e38]], np.float32))
    assert logs[0, 2] == 0
    assert np.isfinite(logs).all()


# The command


def arguments(source: Path, text: Path, *more: str) -> list[str]:
    small = ["--windows", "2", "--window-tokens", "20", "--greedy-windows", "1"]
    return ["divergence", str(source), "--eval", str(text), *small, "--greedy-tokens", "5", *more]


def test_the_table_has_every_measure(source: Path, text: Path, capsys: Capture) -> None:
    assert main(arguments(source, text)) == 0
    output = capsys.readouterr()
    assert output.err == ""
    lines = output.out.splitlines()
    (head,) = [line for line in lines if line.split() == ["f32", "f16", "bf16"]]
    rows = {line[:26].strip(): line[26:].split() for line in lines[lines.index(head) + 1 :]}
    for name in ("max |logit delta|, last", "mean KL, all", "mean |logit delta|, all"):
        assert rows[name][0] == "0"
        assert float(rows[name][1]) < float(rows[name][2])
    assert rows["same top-1, all"][0] == "100.00%"
    assert rows["flushed to zero"] == ["0", "2", "0"]
    assert "likeliest token has 0." in output.out
    assert "near-ties" in output.out


def test_json_is_one_document(source: Path, text: Path, capsys: Capture) -> None:
    assert main(arguments(source, text, "--json")) == 0
    output = capsys.readouterr()
    document = json.loads(output.out)
    assert list(document) == ["source", "eval", "reference", "dtypes", "notices", "seconds"]
    assert [row["dtype"] for row in document["dtypes"]] == ["f32", "f16", "bf16"]
    assert document["eval"]["starts"] == [0, 140]
    assert document["source"]["num_params"] == sum(value.size for value in tensors().values())


def test_a_missing_text_is_bad_usage_and_an_absent_one_is_bad_data(
    source: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert main(["divergence", str(source)]) == 2
    assert main(["divergence", str(source), "--eval", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.endswith("No such file or directory\n")


def test_a_plot_is_written_and_never_over_another_file(
    source: Path, text: Path, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "plot.png"
    assert main(arguments(source, text, "--plot", str(out), "--quiet")) == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    before = out.read_bytes()
    assert main(arguments(source, text, "--plot", str(out))) == 1
    assert "exists" in capsys.readouterr().err
    assert out.read_bytes() == before


def test_a_plot_never_overwrites_a_file_that_came_up_meanwhile(
    report: DivergenceReport, tmp_path: Path
) -> None:
    out = tmp_path / "plot.svg"
    out.write_text("mine")
    with pytest.raises(FileExistsError):
        plot(report, out)
    assert out.read_text() == "mine"


def test_a_plot_that_could_not_be_written_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidArgumentError, match=r"\.png, \.pdf, \.svg"):
        require_plot(tmp_path / "plot.jpeg2000")
    (tmp_path / "there.png").touch()
    with pytest.raises(TargetExistsError):
        require_plot(tmp_path / "there.png")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match=r"dmexp\[plot\]"):
        require_plot(tmp_path / "plot.png")


def test_a_plot_of_exact_exports_says_so(report: DivergenceReport, tmp_path: Path) -> None:
    exact = DivergenceReport(
        **{
            **{name: getattr(report, name) for name in DivergenceReport.__slots__},
            "rows": report.rows[:1],
            "source": "a $model$",
        }
    )
    plot(exact, tmp_path / "plot.svg")
    assert os.path.getsize(tmp_path / "plot.svg") > 1000
