"""Checks that inputs that cannot be recorded are refused before the model runs, in one sentence that suggests a fix,
and that parts of models and offloaded models are recorded."""

import re
import warnings
from typing import Any

import numpy as np
import pytest
import sinkscope
import torch
import transformers as tf
from families import FAMILIES, D, L, T, make_inputs, record, to_batch
from foreign import Encoder, HandWritten
from sentences import refused
from sinkscope.attention import Place, UnsupportedModel
from sinkscope.probe import _tower_name
from sinkscope.recorder import Recorder, split_batch
from sinkscope.settings import FIELDS, Settings
from sinkscope.studies import _check_arguments
from torch import nn
from truth import alpha64, eager64, rounding_of, run64, tolerance_of

PROMPTS = make_inputs(FAMILIES["llama"], 3)
UNCALLABLE_MODEL = FAMILIES["llama"].make("sdpa")
UNCALLABLE_MODEL.register_forward_pre_hook(lambda *_: pytest.fail("the model ran"))


@pytest.mark.filterwarnings("ignore:.*are left out")
@pytest.mark.parametrize(
    ("texts", "options"),
    [
        ({"input_ids": torch.tensor(PROMPTS)}, {}),
        ("a text", {}),
        (7, {}),
        ([7], {}),
        ([["a"]], {}),
        (["a text"], {}),
        ([{"input_ids": torch.tensor(PROMPTS[0])}], {}),
        ([{"input_ids": torch.zeros(0, 4, dtype=torch.long)}], {}),
        ([{"text": "a"}], {}),
        ([{"input_ids": torch.tensor(PROMPTS), "pixel_values": torch.zeros(2, 3)}], {}),
        (PROMPTS, {"first": T}),
        (PROMPTS, {"first": -1}),
        (PROMPTS, {"first": 20, "tokens": 20}),
        (PROMPTS, {"first": T, "tokens": None}),
        (PROMPTS, {"eps": 0.3}),
        (PROMPTS, {"eps": "0.3"}),
        (PROMPTS, {"eps": [float("nan")]}),
        (PROMPTS, {"eps": [30]}),
        (PROMPTS, {"eps": ["x"]}),
        (PROMPTS, {"eps": []}),
        (PROMPTS, {"keep": -1}),
        (PROMPTS, {"tokens": 2.5}),
        (PROMPTS, {"batch": 0}),
        (PROMPTS, {"fields": "q"}),
        (PROMPTS, {"tolerance": float("nan")}),
        (PROMPTS, {"tolerance": 0}),
        (PROMPTS, {"part": "modal"}),
        ([[5]], {"tokens": None}),
        (torch.tensor(PROMPTS[0]), {}),
        (np.array(PROMPTS[0]), {}),
        (range(3, 9), {}),
        ([torch.ones(9)], {}),
        ([[3.0, 4.0]], {}),
        (torch.tensor(5), {}),
        ([PROMPTS[0][:9]], {}),
        ([], {}),
    ],
)
def test_invalid_arguments_are_rejected_before_the_model_runs(texts: Any, options: dict[str, Any]) -> None:
    with refused(ValueError) as error:
        sinkscope.record(UNCALLABLE_MODEL, None, texts, **{"tokens": T, "progress": False} | options)
    assert "\n" not in str(error.value)


def test_settings_at_their_bounds_are_accepted() -> None:
    result = Settings.from_arguments(2, [0, 1], 0, FIELDS)
    assert (result.tokens, result.eps, result.keep, result.first) == (2, (0, 1), 0, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no warning says that a text is left out
        prompts = Recorder(UNCALLABLE_MODEL, None, Settings(tokens=None)).make_prompts([[5, 6], [7, 8, 9]])
    assert [prompt.ids for prompt in prompts] == [[5, 6], [7, 8]]
    job = _check_arguments(["a"], ["a text"], "out", 1, 1, 2, [0.3], 0, "", None, None, {})
    assert (job.batch, job.block) == (1, 1)


def test_only_inputs_with_one_column_per_token_are_cut_with_the_tokens() -> None:
    ids, mask = torch.arange(5, 11)[None], torch.tensor([[0, 1, 1, 1, 1, 1]])
    others = {"patches": torch.zeros(1, 30, 4), "scale": torch.tensor(2.0), "sizes": torch.zeros(3, 2)}
    [row] = split_batch({"input_ids": ids, "attention_mask": mask, **others})
    assert row["input_ids"].tolist() == [[6, 7, 8, 9, 10]]
    [prompt] = Recorder(UNCALLABLE_MODEL, None, Settings(tokens=4)).make_prompts([{"input_ids": ids, **others}])
    assert prompt.ids == [5, 6, 7, 8]
    for name, x in others.items():
        assert row[name] is x
        assert prompt.inputs[name].shape == x.shape


class SmallModel(nn.Module):
    """A model with one number for each prompt, whose part `inner` gives one for each token."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.inner, self.runs = Inner(), 0

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        self.runs += 1
        return self.inner(input_ids).mean(1)


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(97, 8), nn.Linear(8, 1)
        self.blocks = nn.ModuleDict({"a": nn.ModuleList([Step()]), "b": nn.ModuleList([Step()])})

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(input_ids)
        for steps in self.blocks.values():
            x = steps[0](x)
        return self.head(x)


class Step(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(*[x[:, None]] * 3, is_causal=True)[:, 0]


def test_a_single_part_of_a_model_is_recorded() -> None:
    model = SmallModel()
    whole_recording = record(model, PROMPTS[:1])
    assert whole_recording.layers == [0, 1] and model.runs > 0
    model.runs = 0
    part_recording = record(model, PROMPTS[:1], part="inner")
    assert model.runs == 0 and np.array_equal(part_recording["mean.alpha"], whole_recording["mean.alpha"])
    with refused(ValueError):
        sinkscope.record(model, None, PROMPTS[:1], part="outer")
    pixels = make_inputs(FAMILIES["vit"], 1)
    with refused(ValueError):
        record(FAMILIES["vit"].make("sdpa"), pixels, tokens=None, first=37)


def test_each_row_of_a_mapping_is_a_prompt() -> None:
    model = FAMILIES["llama"].make("sdpa")
    single = record(model, PROMPTS, keep=3)
    result = record(model, [{"input_ids": torch.tensor(PROMPTS)}], keep=3)
    assert result.conditions["prompts"]["count"] == 3
    for name, x in single.tensors.items():
        assert np.array_equal(result[name], x, equal_nan=x.dtype.kind == "f"), name


def test_an_encoder_decoder_is_refused_and_its_encoder_recorded_alone() -> None:
    sizes = {
        "vocab_size": 97,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
        "init_std": 0.2,
    }
    torch.manual_seed(5)
    bart = tf.BartModel(tf.BartConfig(**sizes)).eval()
    t5 = tf.T5ForConditionalGeneration(
        tf.T5Config(d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=4, vocab_size=97)
    ).eval()
    for model in (bart, t5):
        with refused(UnsupportedModel):
            record(model, PROMPTS)
        result = record(model.get_encoder(), PROMPTS)
        out = run64(model.get_encoder(), input_ids=torch.tensor(PROMPTS[:1]))
        maps = torch.stack(out.attentions)[:, 0]
        assert np.abs(result["0.alpha"] - maps.mean(-2).numpy()).max() < tolerance_of(maps, 2 * 32)
        assert result.model["mask"] == {"kind": "bidirectional"} and result.layers == [0, 1]


def make_clip() -> nn.Module:
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    config = tf.CLIPConfig(
        text_config=sizes | {"vocab_size": 97, "max_position_embeddings": 64},
        vision_config=sizes | {"image_size": 24, "patch_size": 4},
        projection_dim=16,
    )
    torch.manual_seed(5)
    return tf.CLIPModel(config).eval()


def test_towers_are_recorded_one_at_a_time() -> None:
    model, pixels = make_clip(), make_inputs(FAMILIES["vit"], 1)[0]["pixel_values"]
    clip_inputs = {"input_ids": torch.tensor(PROMPTS[:1]), "pixel_values": pixels}
    with refused(UnsupportedModel):
        record(model, [clip_inputs], tokens=None)
    vision = eager64(model.vision_model, pixel_values=pixels)
    text = eager64(model.text_model, input_ids=clip_inputs["input_ids"])
    for prompt in (clip_inputs, {"pixel_values": pixels}):
        result = record(model, [prompt], tokens=None, part="vision_model")
        assert np.abs(result["mean.alpha"] - vision.mean(-2).numpy()).max() < tolerance_of(vision, 2 * 32)
        assert result.model["mask"] == {"kind": "bidirectional"}
    for prompt in (clip_inputs, PROMPTS[0]):
        result = record(model, [prompt], part="text_model")
        assert np.abs(result["mean.alpha"] - alpha64(text)).max() < tolerance_of(text, 2 * 32)


@pytest.mark.parametrize("tower", ["vision_model", "vision_tower", "model.vision_tower"])
def test_a_tower_is_named_without_the_encoder_inside_it(tower: str) -> None:
    assert _tower_name((Place(f"{tower}.encoder.layers", 0, 0),)) == tower


def test_an_offloaded_model_gives_the_numbers_of_one_in_memory() -> None:
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    for name in ("llama", "gpt_oss"):
        family = FAMILIES[name]
        expected = record(family.make(family.implementations[0]), PROMPTS)
        model = accelerate.cpu_offload(family.make(family.implementations[0]), execution_device="cpu")
        assert next(model.parameters()).device.type == "meta"
        result = record(model, PROMPTS)
        assert np.array_equal(result["mean.alpha"], expected["mean.alpha"])
        assert np.array_equal(result["mean.hidden_norm"], expected["mean.hidden_norm"])


def test_prompt_tuning_is_rejected_with_advice() -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    base = FAMILIES["llama"].make("sdpa")
    model = peft.get_peft_model(base, peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)).eval()
    with refused(UnsupportedModel):
        record(model, PROMPTS)
    ids = torch.tensor(PROMPTS[:1])
    with torch.no_grad():
        embeds = torch.cat([model.get_prompt(1), base.get_input_embeddings()(ids)], 1)
    result = record(model.get_base_model(), [{"inputs_embeds": embeds}], tokens=None)
    att = eager64(base, inputs_embeds=embeds)
    assert np.abs(result["mean.alpha"] - alpha64(att)).max() < tolerance_of(att, L * D)


class UnevenModel(nn.Module):
    """A model whose layers differ in the width of heads, and in how many heads share a key."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.embed = nn.Embedding(97, 16)
        sizes = ((8, 2), (16, 4))
        self.layers = nn.ModuleList([nn.Linear(16, 4 * K + 2 * G * K) for K, G in sizes])
        self.out = nn.ModuleList([nn.Linear(4 * K, 16) for K, _ in sizes])
        self.sizes = sizes

    def forward(self, input_ids: torch.Tensor, exact_maps: list[torch.Tensor] | None = None) -> torch.Tensor:
        x = self.embed(input_ids)
        B, n = input_ids.shape
        for (K, G), project, out in zip(self.sizes, self.layers, self.out, strict=True):
            q, k, v = project(x).split([4 * K, G * K, G * K], -1)
            q, k, v = (part.view(B, n, -1, K).transpose(1, 2) for part in (q, k, v))
            k, v = (part.repeat_interleave(4 // G, 1) for part in (k, v)) if exact_maps is not None else (k, v)
            if exact_maps is None:
                head_outputs = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            else:
                scores = (q @ k.mT * K**-0.5).masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf)
                exact_maps.append(scores.softmax(-1)[0])
                head_outputs = exact_maps[-1] @ v
            x = x + out(head_outputs.transpose(1, 2).flatten(2))
        return x


def test_layers_may_differ_in_the_width_of_their_heads() -> None:
    model = UnevenModel().eval()
    result = record(model, PROMPTS[:1])
    exact_maps: list[torch.Tensor] = []
    with torch.no_grad():
        model.double()(torch.tensor(PROMPTS[:1]), exact_maps)
    model.float()
    att = torch.stack(exact_maps)
    assert np.abs(result["mean.alpha"] - alpha64(att)).max() < tolerance_of(att, 2 * 16)
    assert (result.model["G"], result["0.key_norm"].shape) == (4, (2, 4, T))
    assert np.array_equal(result["0.key_norm"][0, 0], result["0.key_norm"][0, 1])  # two heads share a key
    with refused(UnsupportedModel):
        record(model, PROMPTS[:1], fields=["q"])


def test_sink_logits_may_be_in_some_layers_only() -> None:
    """Layers without a sink logit have rows that sum to 1, so that their raw alpha equals alpha."""
    model = FAMILIES["gpt_oss"].make("eager")
    with torch.no_grad():
        model.model.layers[1].self_attn.sinks.fill_(-torch.inf)
    result = record(model, PROMPTS[:1])
    att = torch.stack(list(model(**to_batch(PROMPTS[0]), output_attentions=True).attentions))[:, 0].detach()
    raw_alpha, bound = alpha64(att), tolerance_of(att / att.sum(-1, keepdim=True), L * D)
    assert np.abs(result["0.alpha_raw"] - raw_alpha).max() < bound
    assert np.abs(result["0.row_mass"][1] - 1).max() < bound
    assert np.abs(result["0.alpha"][1] - raw_alpha[1]).max() < bound


SIZES = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40}
DISENTANGLED = SIZES | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
ON_REQUEST = {
    "deberta-v2": lambda: tf.DebertaV2Model(tf.DebertaV2Config(**DISENTANGLED)),
    "mpnet": lambda: tf.MPNetModel(tf.MPNetConfig(**SIZES)),
    "xlnet": lambda: tf.XLNetModel(tf.XLNetConfig(vocab_size=97, d_model=32, n_layer=2, n_head=4, d_inner=40)),
    "flaubert": lambda: tf.FlaubertModel(tf.FlaubertConfig(vocab_size=97, emb_dim=32, n_layers=2, n_heads=4)),
    "openai-gpt": lambda: tf.OpenAIGPTModel(tf.OpenAIGPTConfig(vocab_size=97, n_embd=32, n_layer=2, n_head=4)),
}


@pytest.mark.parametrize("name", ON_REQUEST)
def test_weights_that_a_model_returns_on_request_are_recorded(name: str) -> None:
    torch.manual_seed(1)
    model, ids = ON_REQUEST[name]().eval(), torch.tensor([[5, 9, 70, 12, 33, 6, 8, 40]])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)
        maps = torch.stack(model(ids, output_attentions=True).attentions)[:, 0].double()
    result = record(model, [ids], tokens=None)
    queries = torch.arange(8, 0, -1) if name == "openai-gpt" else 8
    assert np.abs(result["0.alpha"] - (maps.sum(-2) / queries).numpy()).max() < rounding_of(1, 8)
    assert np.ptp(result["0.alpha"]) > 0.05  # the maps differ from uniform ones


NO_ATTENTION = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2}
LONG_T5 = {"vocab_size": 97, "d_model": 32, "num_layers": 2, "num_heads": 4, "d_ff": 40}


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.MambaForCausalLM(tf.MambaConfig(**NO_ATTENTION)),
        lambda: tf.RwkvForCausalLM(tf.RwkvConfig(**NO_ATTENTION)),
        lambda: tf.FNetModel(tf.FNetConfig(**NO_ATTENTION)),
        HandWritten,
        Encoder,
        lambda: tf.YosoModel(tf.YosoConfig(**SIZES)),
        lambda: tf.LongT5EncoderModel(tf.LongT5Config(**LONG_T5)),
        lambda: tf.LongformerModel(tf.LongformerConfig(**SIZES, attention_window=[4, 4])),
    ],
)
def test_a_model_without_observable_attention_is_told_from_one_without_attention(make: Any) -> None:
    with refused(UnsupportedModel):
        record(make().eval(), [[5, 9, 70, 12, 33]], tokens=None)


def test_the_line_that_the_refusal_of_windows_prints_makes_maps() -> None:
    torch.manual_seed(2)
    model, ids = tf.LongformerModel(tf.LongformerConfig(**SIZES, attention_window=[4, 4])).eval(), [5, 9, 70, 12, 33, 6]
    with pytest.raises(UnsupportedModel) as refused:
        record(model, [ids + [8, 40]], tokens=None)
    line = re.search(r"att = (.*\])", str(refused.value))
    assert line
    T, windows = 8, model(torch.tensor([ids + [8, 40]]), output_attentions=True).attentions
    names = {"F": torch.nn.functional, "H": 4, "T": T, "W": 5}
    maps = [eval(line[1], names | {"w": w[0].detach()}) for w in windows]
    assert torch.equal(maps[1][2, 5, 3:8], windows[1][0, 2, 5].detach())
    result = sinkscope.record_maps([maps], [ids + [8, 40]])
    assert np.allclose(result["0.att"].sum(-1), 1, atol=1e-3)


def test_a_batch_of_ids_is_a_text_for_each_row() -> None:
    model = FAMILIES["llama"].make("sdpa")
    results = [
        record(model, texts) for texts in (PROMPTS, [torch.tensor(PROMPTS)], [np.array([row]) for row in PROMPTS])
    ]
    for result in results[1:]:
        assert result.conditions == results[0].conditions
        assert np.array_equal(result["mean.alpha"], results[0]["mean.alpha"])


@pytest.mark.parametrize("texts", [[[5, 97]], [torch.tensor([[5, -1]])], [{"input_ids": torch.tensor([[5, 1000]])}]])
def test_ids_that_the_embedding_lacks_are_refused_before_the_model_runs(texts: Any) -> None:
    with refused(ValueError):
        record(UNCALLABLE_MODEL, texts, tokens=None)


def test_steps_of_generation_are_refused_by_a_sentence_that_names_watching() -> None:
    model = FAMILIES["llama"].make("eager")
    out = model.generate(
        torch.tensor([[5, 9, 70]]),
        max_new_tokens=3,
        output_attentions=True,
        return_dict_in_generate=True,
        pad_token_id=0,
    )
    for maps in (out.attentions, [out.attentions], [out.attentions[1]], out):
        with refused(ValueError):
            sinkscope.record_maps(maps, [out.sequences[0].tolist()])


@pytest.mark.parametrize("maps", [None, (), [None], [()], ((), ()), [((), ())], [(None, None)]])
def test_weights_that_sdpa_does_not_return_are_refused_by_a_sentence_that_names_watching(maps: Any) -> None:
    with pytest.raises(ValueError, match=r"expected weights, .* sinkscope\.watching\(model\)"):
        sinkscope.record_maps(maps, [[5, 9, 70]])


def test_the_output_of_a_model_is_refused_by_a_sentence_that_names_its_maps() -> None:
    out = FAMILIES["llama"].make("eager")(torch.tensor([[5, 9, 70]]), output_attentions=True)
    for maps in (out, [out]):
        with refused(ValueError):
            sinkscope.record_maps(maps, [[5, 9, 70]])
    assert sinkscope.record_maps([out.attentions], [[5, 9, 70]]).model["L"] == 3
