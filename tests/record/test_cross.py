"""Encoders with their decoders: the maps and metrics of both and of the cross-attention between them, compared with
those of transformers' eager code in float64, from which plain numpy computes the metrics."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sinkscope
import torch
import transformers as tf
from pairs import D, S, T, V, dtype_of, families, make, prompts, run_eagerly, run_encoder_eagerly
from sentences import check_sentence, refused
from sinkscope.__main__ import main
from sinkscope.attention import UnsupportedModel
from sinkscope.recording import RecordingError
from truth import F16_ROUNDING, rounding_of, tolerance_of

EPS = (0.05, 0.1, 0.3)
ATTENTIONS = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
# What is refused, and a part of its sentence. All else of every family is recorded.
OWN_SOFTMAX = "found a softmax of"
OTHER_CALLS = "calls of another kind"
NOT_KEYS = "windows or pools"
SAMPLED = {"cross": OTHER_CALLS}  # deformable attention, to sampled points of an image
RECURRENT = dict.fromkeys(("decoder", "cross"), "it weighs no tokens")
REFUSED: dict[str, dict[str, str]] = {
    **dict.fromkeys(("d_fine", "deimv2", "rt_detr", "rt_detr_v2", "pp_doclayout_v4"), SAMPLED),
    **dict.fromkeys(("parakeet_rnnt", "parakeet_tdt"), RECURRENT),
    **dict.fromkeys(("nemotron3_5_asr", "nemotron_asr_streaming"), RECURRENT | {"encoder": "found another, where"}),
    **dict.fromkeys(("longt5", "pegasus_x", "pp_formulanet"), {"encoder": OWN_SOFTMAX}),
    "autoformer": {"encoder": NOT_KEYS, "decoder": NOT_KEYS, "cross": "whose rows sum to 1"},
    "deformable_detr": SAMPLED | {"encoder": OWN_SOFTMAX},
    **dict.fromkeys(("fastspeech2_conformer", "musicgen_melody"), {"cross": OTHER_CALLS}),
    "informer": {"encoder": "shorten their sequence", "decoder": "found another, where"},
    "led": {"encoder": NOT_KEYS},
    "prophetnet": dict.fromkeys(("encoder", "cross"), "whose rows sum to 1"),
    "t5gemma2": {"cross": "one softmax over both", "decoder": OTHER_CALLS},
}
# Models that were not made small from their config alone, or whose random weights give NaN.
UNMADE = ("omdet-turbo", "pp_doclayout_v2", "pp_doclayout_v3", "grounding-dino", "mm-grounding-dino")


def record(name: str, part: str = "cross", **options: Any) -> sinkscope.Recording:
    settings = {"eps": EPS, "keep": 3, "progress": False} | options
    texts = settings.pop("texts", None) or prompts(name)
    return sinkscope.record(make(name, dtype=dtype_of(name)), None, texts, part=part, **settings)


@pytest.mark.parametrize("name", [name for name in families() if name not in UNMADE])
def test_maps_and_metrics_of_every_family_are_those_of_eager_attention_or_it_is_refused(name: str) -> None:
    texts = prompts(name, 2 if name == "informer" else 1)  # its mask depends on the text
    outputs = [run_eagerly(name, inputs) for inputs in texts]
    for part in ATTENTIONS:
        if part in REFUSED.get(name, {}):
            with pytest.raises(ValueError, match=REFUSED[name][part]):
                record(name, part, texts=texts, tokens=None)
            continue
        layers = [layers_of(name, part, *pair) for pair in zip(texts, outputs, strict=True)]
        maps = np.stack([np.concatenate([a.numpy() for a in layer]) for layer in layers]).astype(float)
        check(record(name, part, texts=texts, tokens=None, maps="full"), maps, part == "cross")


def test_the_readme_counts_the_families() -> None:
    readme = (Path(__file__).parents[2] / "models/record/README.md").read_text()
    made = [name for name in families() if name not in UNMADE]
    crossed = [name for name in made if "cross" not in REFUSED.get(name, {})]
    assert f"has {len(families())} model types" in readme
    assert f"random checkpoint of {len(made)} " in readme and f"cross-attention of {len(crossed)} is recorded" in readme


def layers_of(name: str, part: str, inputs: Any, out: Any) -> Any:
    """Returns the eager maps of each layer. The output of some models has those of one stack alone."""
    if hasattr(out, ATTENTIONS[part]):
        return getattr(out, ATTENTIONS[part])
    return run_encoder_eagerly(name, inputs) if part == "encoder" else out.attentions


def check(recording: sinkscope.Recording, maps: Any, is_cross: bool) -> None:
    """Compares a recording with numbers that numpy computes of the eager maps, [prompts, L, H, queries, keys]."""
    queries, keys = maps.shape[-2:]
    assert (recording.cross is not None) == is_cross
    is_causal = not is_cross and np.triu(maps, 1).max() == 0
    alpha = maps.sum(-2) / (np.arange(keys, 0, -1) if is_causal else queries)
    bound = tolerance_of(torch.from_numpy(maps), 3 * D)
    assert np.abs(recording["mean.alpha"] - alpha.mean(0)).max() < bound
    sinks = np.array([[(a[..., k] > e).mean() for k in range(keys)] for a in alpha for e in EPS])
    sinks = sinks.reshape(len(maps), len(EPS), keys)
    assert np.allclose(recording["mean.sink_ratio"], sinks.mean(0), rtol=0, atol=rounding_of(1))
    assert np.allclose(recording["prompt.sink_1"], sinks[..., 0], rtol=0, atol=rounding_of(1))
    seen = np.arange(1, keys + 1) if is_causal else np.full(queries, keys)
    rows = -np.sum(maps * np.log(np.maximum(maps, 1e-300)), -1)
    entropy = np.where(seen > 1, rows / np.log(np.maximum(seen, 2)), 0).mean(-1)
    assert np.abs(recording["mean.entropy_mean"] - entropy.mean(0)).max() < bound
    share = maps[0][..., [0, 2]].sum(-1)[..., 2 if is_causal else 0 :].mean(-1)
    for prompt in range(len(maps)):
        assert np.abs(recording.attention(prompt) - maps[prompt]).max() - F16_ROUNDING < bound
        assert np.abs(recording[f"{prompt}.alpha"] - alpha[prompt]).max() < bound
    assert np.abs(recording.share([0, 2]) - share).max() < 2 * F16_ROUNDING + bound


def test_a_decoder_has_the_loss_of_its_own_tokens() -> None:
    recording = record("bart", "decoder")
    for i, inputs in enumerate(prompts("bart")):
        ids = inputs["decoder_input_ids"]
        logits = run_eagerly("bart", inputs).logits[0].log_softmax(-1)
        loss = -logits[:-1].gather(-1, ids[0, 1:, None]).mean().item()
        assert abs(float(recording["prompt.loss"][i]) - loss) < rounding_of(logits, 3 * D)
    assert "mean.loss_mean" not in record("bart", "cross")


def test_uniform_cross_attention_gives_each_key_its_share_of_all() -> None:
    model = copy.deepcopy(make("t5"))
    with torch.no_grad():
        for block in model.decoder.block:
            block.layer[1].EncDecAttention.q.weight.zero_()
    recording = sinkscope.record(model, None, prompts("t5"), part="cross", progress=False)
    assert np.abs(recording["mean.alpha"] - 1 / S).max() < 1e-6
    assert np.abs(recording["mean.entropy_mean"] - 1).max() < 1e-6


def test_numbers_that_two_sequences_cannot_have_are_absent() -> None:
    recording = record("whisper")
    names = {name.partition(".")[2] for name in recording.tensors}
    assert not names & {"distance", "head_gate", "head_load", "entropy", "row_mass", "hidden_norm", "loss_mean"}
    assert {"alpha", "sink_ratio", "contribution", "cos_gap", "value_norm"} <= names
    assert recording.cross == {"T": T, "keys": "frame", "tokens": recording.cross["tokens"]}  # type: ignore[index]
    check_sentence(recording.title, Path(__file__))
    assert "first frame: number 0" in recording.caption()


class Words:
    """A tokenizer of words, which ends a text with a token of its own."""

    pad_token_id = 0

    def __call__(self, text: str, text_target: str | None = None, **_: Any) -> Any:
        ids, target = ([3 + sum(map(ord, w)) % (V - 3) for w in x.split()] + [2] for x in (text, text_target or ""))
        return tf.BatchEncoding({"input_ids": ids, "attention_mask": [1] * len(ids), "labels": target})

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [f"w{i}" for i in ids]

    def decode(self, ids: list[int]) -> str:
        return f"w{ids[0]}"


def test_a_model_that_does_not_say_how_its_decoder_begins_is_refused_with_advice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words, model = Words(), make("t5")
    monkeypatch.setattr(model.config, "decoder_start_token_id", None)
    with refused(ValueError):
        sinkscope.record(model, words, [("one two", "eins zwei")], part="cross", progress=False)


def test_pairs_of_texts_labels_and_decoder_ids_are_the_same_prompts() -> None:
    model, words = make("t5"), Words()
    pairs = [("one two three four", "eins zwei drei"), ("five six seven eight nine", "vier fünf sechs sieben")]
    by_text = sinkscope.record(model, words, pairs, part="cross", progress=False)
    encodings = [words(*pair) for pair in pairs]
    mappings = [
        {"input_ids": torch.tensor([e["input_ids"]]), "labels": torch.tensor([[*e["labels"], -100]])} for e in encodings
    ]
    by_labels = sinkscope.record(model, words, mappings, part="cross", progress=False)
    padded = torch.zeros(2, 6, dtype=torch.long)
    mask, targets = torch.zeros(2, 6, dtype=torch.long), torch.zeros(2, 6, dtype=torch.long)
    target_mask = torch.zeros(2, 6, dtype=torch.long)
    for row, e in enumerate(encodings):
        n, m = len(e["input_ids"]), len(e["labels"])
        padded[row, :n], mask[row, :n] = torch.tensor(e["input_ids"]), 1
        targets[row, :m], target_mask[row, :m] = torch.tensor([2, *e["labels"][:-1]]), 1
    batch = {"input_ids": padded, "attention_mask": mask}
    batch |= {"decoder_input_ids": targets, "decoder_attention_mask": target_mask}
    by_ids = sinkscope.record(model, words, [batch], part="cross", progress=False)
    # Cut to the shortest source, of five tokens, and to the shortest target, of four.
    assert by_text["0.att"].shape[-2:] == (4, 5)
    assert by_text.queries() == ["w2", *(f"w{i}" for i in encodings[0]["labels"][:3])]
    assert by_text.tokens() == [f"w{i}" for i in encodings[0]["input_ids"]]
    for other in (by_labels, by_ids):
        assert other.conditions["tokens"] == by_text.conditions["tokens"]
        assert np.array_equal(other["mean.alpha"], by_text["mean.alpha"])


def test_a_decoder_without_tokens_generates_them() -> None:
    model = make("bart")
    texts = [inputs["input_ids"][0].tolist() for inputs in prompts("bart")]
    recording = sinkscope.record(model, None, texts, part="cross", generate=5, progress=False)
    ids = model.generate(torch.tensor(texts[:1]), max_new_tokens=5, min_new_tokens=5, do_sample=False, num_beams=1)
    assert recording.queries() == [str(i) for i in ids[0, :5].tolist()]
    with refused(ValueError):
        sinkscope.record(model, None, texts, part="cross")


def test_long_maps_are_pooled_over_keys_alone() -> None:
    g = torch.Generator().manual_seed(1)
    texts = [{"input_ids": torch.randint(3, V, (1, 150), generator=g), "decoder_input_ids": torch.tensor([[2, 5, 6]])}]
    pooled = record("t5", texts=texts, tokens=None)
    full = record("t5", texts=texts, tokens=None, maps="full")
    assert pooled.attention().shape == (3, 4, 3, 75) and full.attention().shape == (3, 4, 3, 150)
    cells = full.attention().reshape(3, 4, 3, 75, 2).mean(-1)
    steps = pooled["0.att_scale"].max() / 510  # half a step of 8 bits
    assert np.abs(pooled.attention() - cells).max() < F16_ROUNDING + steps


def test_padding_that_is_hidden_and_models_without_a_kind_of_attention_are_refused() -> None:
    inputs = prompts("bart")[0]
    with refused(UnsupportedModel):
        sinkscope.record(make("bart"), None, [inputs])
    model, mask = copy.deepcopy(make("bart")), torch.tensor([[1] * (S - 2) + [0, 0]])
    forward = model.model.decoder.forward
    model.model.decoder.forward = lambda *args, **kwargs: forward(*args, **kwargs | {"encoder_attention_mask": mask})
    with pytest.raises(UnsupportedModel, match="hides some"):
        sinkscope.record(model, None, [inputs], part="cross", progress=False)


def test_files_open_again_and_old_readers_refuse_them(tmp_path: Path) -> None:
    recording = record("t5", keep=1)
    path = tmp_path / "cross.safetensors"
    recording.save(path)
    again = sinkscope.open_recording(path)
    assert again.conditions == json.loads(json.dumps(recording.conditions))
    assert b'"sinkscope.recording":"2"' in path.read_bytes()
    plain = record("t5", "encoder", keep=1)
    plain.save(path)
    assert b'"sinkscope.recording":"1"' in path.read_bytes()
    for change, key in (
        ({"cross": {"T": 0, "keys": "token", "tokens": []}}, "cross.T"),
        ({"cross": recording.cross | {"keys": "word"}}, "cross.keys"),  # type: ignore[operator]
        ({"cross": recording.cross | {"tokens": [["a"]]}}, "cross.tokens"),  # type: ignore[operator]
        ({"tokens": [["a"] * (S - 1)]}, "tokens"),
    ):
        broken = copy.deepcopy(recording)
        broken.conditions |= change
        broken.save(path)
        with pytest.raises(RecordingError, match=f"{key}: expected"):
            sinkscope.open_recording(path)


def test_the_figure_names_both_axes() -> None:
    recording = record("whisper")
    svg = sinkscope.picture(recording, format="svg").decode()
    assert "decoder token (query)" in svg and "encoder frame (key)" in svg
    assert "alpha_1: attention to the first" in svg


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trainer's folder of two checkpoints, with their tokenizer of words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    root = tmp_path_factory.mktemp("trained")
    vocabulary = {"<pad>": 0, "<s>": 1, "</s>": 2} | {f"w{i}": i for i in range(3, V)}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = tf.PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="</s>")
    for step in (10, 2000):
        model = copy.deepcopy(make("t5"))
        with torch.no_grad():
            model.shared.weight.mul_(1 + step / 1000)
        model.save_pretrained(root / f"step_{step}")
        tokenizer.save_pretrained(root / f"step_{step}")
    (root / "texts.json").write_text(json.dumps(SENTENCES))
    return root


SENTENCES = ["w5 w6 w7 w8 w11", "w9 w10 w11 w12 w13 w14", "w3 w4"]
PAIRS = [(text, " ".join(f"w{i + j}" for j in range(5))) for i, text in enumerate(SENTENCES, 20)]


@pytest.mark.parametrize("part", ATTENTIONS)
@pytest.mark.parametrize("generate", [0, 3])
def test_a_series_has_the_numbers_of_each_checkpoint(
    checkpoints: Path, tmp_path: Path, part: str, generate: int
) -> None:
    out = tmp_path / "series.safetensors"
    texts = SENTENCES if generate else PAIRS
    options: dict[str, Any] = {"part": part, "generate": generate, "tokens": 4, "eps": EPS, "keep": 2}
    series = sinkscope.series(checkpoints, texts, out=out, **options)
    assert series.steps == [10, 2000] and sinkscope.Series.open(out).table() == series.table()
    for step, recording in zip(series.steps, series.recordings, strict=True):
        assert recording.conditions["prompts"]["count"] == 2  # the third text has fewer than four tokens
        model = tf.T5ForConditionalGeneration.from_pretrained(
            checkpoints / f"step_{step}", attn_implementation="eager", dtype=torch.float64
        )
        maps = []
        for text, target in PAIRS[:2]:
            ids = torch.tensor([[int(w[1:]) for w in text.split()][:4]])
            labels = [int(w[1:]) for w in target.split()]
            decoder = torch.tensor([[2, *labels][:4]])
            if generate:
                whole = torch.tensor([[int(w[1:]) for w in text.split()]])
                decoder = model.generate(whole, max_new_tokens=3, min_new_tokens=3, do_sample=False, use_cache=False)
                decoder = decoder[:, :3]
            with torch.no_grad():
                out_ = model(input_ids=ids, decoder_input_ids=decoder, output_attentions=True, use_cache=False)
            maps.append(np.concatenate([a.numpy() for a in getattr(out_, ATTENTIONS[part])]))
        check(recording, np.stack(maps), part == "cross")
        if part == "cross":
            assert recording.queries(1) == [f"w{i}" if i > 2 else "<pad>" if i == 0 else "</s>" for i in decoder[0]]


def test_a_study_of_another_part_is_another_study(checkpoints: Path, tmp_path: Path) -> None:
    models, options = [str(checkpoints / "step_10")], {"tokens": 4, "generate": 3}
    address = sinkscope.study(models, SENTENCES, tmp_path, part="cross", **options)[models[0]]
    assert sinkscope.open_recording(address).cross
    for other in ({"part": "decoder"}, {"part": "cross", "generate": 2}, {"part": None, "generate": 0}):
        with refused(ValueError):
            sinkscope.study(models, SENTENCES, tmp_path, **options | other)
    with pytest.warns(UserWarning, match="generate: expected the part of"):
        assert not sinkscope.study(
            {"a": lambda: (make("bart").model.encoder, None)}, [[3, 4]], tmp_path / "o", generate=2
        )


def test_the_command_line_records_what_a_decoder_attends_to(checkpoints: Path, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "cross.safetensors"
    options = ["--texts", str(checkpoints / "texts.json"), "--out", str(out), "--part", "cross", "--generate", "6"]
    assert main(["record", str(checkpoints / "step_10"), "--take", "2", *options]) == 0
    assert "6 queries of the decoder by 5 tokens" in capsys.readouterr().out
    assert sinkscope.open_recording(out).tokens() == ["w5", "w6", "w7", "w8", "w11"]
    assert main(["record", str(checkpoints), "--revisions", "all", "--tokens", "5", *options]) == 0
    assert "2 checkpoints, step 10 to 2000" in capsys.readouterr().out
