"""Opens recordings of random models of several families with the command line, and with the page in Chromium."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sinkscope
import torch
from engine import NEEDS_ENGINE, ROOT, measure, run_cli
from families import FAMILIES, T, make_inputs, record
from hybrids import HYBRIDS
from sentences import check_sentence
from truth import F16_ROUNDING

PAGE = ROOT / ".build" / "page" / "index.html"
LONG = 150  # number of tokens that are pooled to 75 cells of 2 tokens

CASES = {"llama": T, "gpt_oss": T, "gemma2": T, "bert": T, "long-llama": LONG, "long-bert": LONG}
ON_THE_PAGE = ("gpt_oss", "bert", "long-llama")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("recordings")
    result = {}
    for name, tokens in CASES.items():
        family = FAMILIES[name.removeprefix("long-")]
        model, prompts = family.make(family.implementations[0]), make_inputs(family, 3, tokens)
        recording = record(model, prompts, tokens=tokens, keep=1, model_id=f"random {name}")
        result[name] = folder / f"{name}.safetensors"
        recording.save(result[name])
    return result


@NEEDS_ENGINE
@pytest.mark.parametrize("name", list(CASES))
def test_the_command_line_prints_the_metrics_of_the_package(name: str, files: dict[str, Path]) -> None:
    recording, result = sinkscope.Recording.open(files[name]), measure(files[name])
    assert (result["T"], result["sequences"]) == (CASES[name], 3)
    assert recording.measure()["conclusive"] == result["conclusive"]
    compared_metrics = set()
    for e, metrics in [(0, result["metrics"]), *enumerate(entry["metrics"] for entry in result["byEps"])]:
        for metric, summary in metrics.items():
            for statistic in ("mean", "deviation"):
                expected = recording[f"{statistic}.{metric}"]
                if metric.startswith(("sink_ratio", "near_eps")):
                    expected = expected[e]
                value = np.array([np.nan if x is None else x for x in summary[statistic]])
                # The command line prints the float32 numbers of the file.
                assert np.array_equal(value, expected.ravel(), equal_nan=True), (metric, statistic)
            compared_metrics.add(metric)
    summarized = {metric for metric, _, _ in recording.summarized()} - {"distance"}
    assert summarized - {"row_mass", "alpha_raw"} | {"row_mass_summary"} <= compared_metrics
    assert "loss_mean" not in compared_metrics if "bert" in name else "loss_mean" in compared_metrics


@NEEDS_ENGINE
@pytest.mark.parametrize(("suffix", "index"), [("@0", 0), ("@30", 1), ("", -1)])
def test_the_command_line_measures_a_checkpoint_of_a_series(suffix: str, index: int) -> None:
    path = ROOT / "tests/golden/series.safetensors"
    printed = measure(Path(f"{path}{suffix}"))
    recording = sinkscope.Series.open(path).recordings[index]
    assert printed["model"] == recording.conditions["model"]["id"]
    assert np.array_equal(printed["metrics"]["alpha"]["mean"], recording["mean.alpha"].ravel())


@NEEDS_ENGINE
def test_a_step_that_a_series_lacks_is_refused() -> None:
    run = run_cli("measure", "tests/golden/series.safetensors@7")
    assert run.returncode == 1
    check_sentence(run.stderr, Path(__file__))


@NEEDS_ENGINE
@pytest.mark.parametrize("first", [0, 3])
@pytest.mark.parametrize("name", ["llama", "gpt_oss", "deepseek_v3", "bert", "jamba"])
def test_the_core_measures_the_first_token_where_the_recording_has_it(name: str, first: int, tmp_path: Path) -> None:
    """From the maps and vectors of the kept prompt, the core computes the numbers that the package computed during the
    run."""
    model = HYBRIDS[name][0]() if name in HYBRIDS else FAMILIES[name].make(FAMILIES[name].implementations[0])
    prompt = [i % 60 for i in make_inputs(FAMILIES["llama"], 1)[0]]
    recording = record(model, [prompt], first=first, maps="full", fields=["q", "k", "v", "hidden", "loss"])
    # Alpha is stored exactly. Other metrics are computed from maps in half precision, and differ by their rounding.
    kept_tensors = {name: x for name, x in recording.tensors.items() if name.startswith("0.")}
    sinkscope.Recording(recording.conditions, kept_tensors).save(tmp_path / "r.safetensors")
    result = measure(tmp_path / "r.safetensors")["metrics"]
    compared_metrics = {
        "hidden_ratio",
        "key_ratio",
        "value_ratio",
        "first_share",
        "contribution",
        "cos_gap",
    } & result.keys()
    assert {"hidden_ratio", "value_ratio", "contribution", "cos_gap"} <= compared_metrics
    for metric in compared_metrics:
        expected = recording[f"mean.{metric}"]
        value = np.array([np.nan if x is None else x for x in result[metric]["mean"]])
        assert np.allclose(value, expected.ravel(), rtol=8 * F16_ROUNDING, atol=F16_ROUNDING, equal_nan=True), metric
    alpha = np.array(result["alpha"]["mean"]).reshape(recording["mean.alpha"].shape)
    assert np.array_equal(alpha, recording["mean.alpha"])


class Strided(torch.nn.Module):
    """A layer of attention that sees every second key, and the first."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = torch.nn.Embedding(60, 16), torch.nn.Linear(16, 60)
        self.project = torch.nn.Linear(16, 48)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        x = self.project(self.embedding(input_ids)).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        t = torch.arange(input_ids.shape[1])
        distance = t[:, None] - t
        mask = (distance >= 0) & ((distance % 2 == 0) | (t == 0))
        y = torch.nn.functional.scaled_dot_product_attention(*x, attn_mask=mask)
        return self.head(y.transpose(1, 2).flatten(2))


@NEEDS_ENGINE
def test_the_entropy_counts_the_keys_of_a_mask_with_holes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    prompt = [i % 60 for i in make_inputs(FAMILIES["llama"], 1)[0]]
    recording = record(Strided(), [prompt], maps="full", mask="causal")
    kept_tensors = {name: x for name, x in recording.tensors.items() if name.startswith("0.")}
    sinkscope.Recording(recording.conditions, kept_tensors).save(tmp_path / "r.safetensors")
    result = measure(tmp_path / "r.safetensors")["metrics"]
    expected = recording["mean.entropy_mean"].ravel()
    assert np.allclose(result["entropy_mean"]["mean"], expected, rtol=8 * F16_ROUNDING)
    # A mask that the conditions name is not stored.
    assert "0.seen" not in record(FAMILIES["llama"].make("sdpa"), [prompt])


@NEEDS_ENGINE
def test_the_command_line_names_layers_and_the_first_token_as_the_model_does(tmp_path: Path) -> None:
    make, layers = HYBRIDS["jamba"]
    prompts = [[i % 60 for i in prompt] for prompt in make_inputs(FAMILIES["llama"], 2)]
    recording = record(make(), prompts, first=2)
    recording.save(tmp_path / "r.safetensors")
    output = run_cli("measure", tmp_path / "r.safetensors").stdout
    assert "4 layers, attention in 2 (1, 3), 4 heads" in output and "at position 2" in output
    line = next(line for line in output.splitlines() if line.startswith("alpha_3 "))
    alpha = recording["mean.alpha"][..., 2]
    layer, head = np.unravel_index(np.argmax(alpha), alpha.shape)
    assert f"mean {alpha.mean():.3f}, largest {alpha.max():.3f} (L{layers[layer]}H{head})" in line
    assert f"Sink_3, eps 0.1   {100 * recording['mean.sink_ratio'][0, 2]:.2f}%" in output
    assert "|h_3| / |h|" in output and "_1 " not in output


@pytest.fixture(scope="module")
def page(files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if not PAGE.exists():
        pytest.skip("the page is not built")
    run = subprocess.run(
        ["node", "tests/record/page.mjs", tmp_path_factory.mktemp("pictures"), *(files[name] for name in ON_THE_PAGE)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("name", ON_THE_PAGE)
def test_the_page_shows_the_numbers_of_the_package(name: str, page: dict[str, Any], files: dict[str, Path]) -> None:
    result, recording = page[files[name].name], sinkscope.Recording.open(files[name])
    assert result["troubles"] == []
    alpha = recording["mean.alpha"][..., 0]
    layer, head = np.unravel_index(np.argmax(alpha), alpha.shape)
    # If prompts have different first tokens, the means belong to no first token.
    token = recording.conditions["first"]["token"]
    token_text = "" if token is None else f" “{token}”"
    assert result["finding"].startswith(f"Head L{layer}H{head} gives the first token{token_text} ")
    assert name == "gpt_oss" or f"{100 * alpha.max():.0f}% of its " in result["finding"]
    assert name == "gpt_oss" or f"he mean over all {alpha.size} heads is {100 * alpha.mean():.0f}%" in result["finding"]
    att, n = recording.attention(0)[layer, head], CASES[name]
    block = -(-n // att.shape[0])
    assert result["side"] == att.shape[0]
    share = att / att.sum(-1, keepdims=True)
    for cell in result["cells"]:
        row, col, sentence = cell["row"], cell["col"], cell["says"].replace("\N{NO-BREAK SPACE}", " ")
        if block > 1:
            ranges = [f"{index * block}-{index * block + block - 1}" for index in (row, col)]
            assert sentence.startswith(f"queries {ranges[0]} → keys {ranges[1]}: ")
        else:
            assert re.match(rf"query {row} “\d+” → key {col} “\d+”: ", sentence)
        if col > row and "bert" not in name:
            assert sentence.endswith("not visible (later tokens)" if block > 1 else "not visible (later token)")
        elif name == "gpt_oss":
            percent = float(re.search(r": ([\d.]+)% of the row", sentence)[1])
            assert abs(percent / 100 - share[row, col]) <= 2e-3
        else:
            assert abs(float(sentence.split()[-1]) - att[row, col]) <= 6e-5


@pytest.mark.parametrize("name", ON_THE_PAGE)
def test_the_page_offers_only_views_that_the_model_supports(
    name: str, page: dict[str, Any], files: dict[str, Path]
) -> None:
    result = page[files[name].name]
    views, texts = result["views"], " ".join(result["texts"])
    if "bert" in name:
        # These views need a next token, or queries that do not see later keys.
        assert not {"Loss by position", "Output", "Sink₁ by length"} & set(views)
        assert not re.search(r"later token|next token|t ≥ k|causal", texts)
    else:
        assert "Loss by position" in views
        # This view reads full maps, and a long recording has only pooled maps.
        assert ("Sink₁ by length" in views) == (not name.startswith("long-"))
        assert "Loss by position" not in result["lacks"]
    if name.startswith("long-"):
        assert "blocks of 2 tokens" in result["axes"]["row"]
        assert "75 by 75" in result["map"] and "2 by 2" in result["map"]
    else:
        assert result["axes"] == {"row": "attending token (query)", "col": "attended to (key)"}
    # No key receives the weight of a sink logit.
    assert "Bias key" not in views
    assert "All heads" not in result["lacks"]
