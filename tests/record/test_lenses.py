"""Runs the README's lines for maps of other programs verbatim, and the notebooks that patch activations with them.
`tests/record/lenses` installs these programs."""

import json
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sinkscope
import torch
import transformers as tf
from torch import nn
from truth import alpha64, eager64, tolerance_of

README = Path(__file__).resolve().parents[2] / "models" / "record" / "README.md"
T, L, H, V = 12, 3, 4, 97
TEXTS = [
    " ".join(f"w{i}" for i in ids)
    for ids in torch.randint(5, V, (4, 20), generator=torch.Generator().manual_seed(2)).tolist()
]


def lines_of(heading: str) -> str:
    [block] = re.findall(rf"^### {re.escape(heading)}\n+```python\n(.*?)^```", README.read_text(), re.M | re.S)
    assert len(block.strip().splitlines()) <= 10
    return block


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., sinkscope.Recording]:
    """Returns a function that runs the lines under a heading of the README. They are run from a file, since nnsight
    reads their source."""

    def run_lines(heading: str, **names: Any) -> sinkscope.Recording:
        path = tmp_path / "lines.py"
        path.write_text(lines_of(heading))
        exec(compile(path.read_text(), path, "exec"), names)
        return names["recording"]

    return run_lines


@pytest.fixture
def tokenizer(tmp_path: Path) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {"[UNK]": 0, "[BOS]": 1, "[EOS]": 2} | {f"w{i}": i for i in range(3, V)}
    word_tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    word_tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tf.PreTrainedTokenizerFast(
        tokenizer_object=word_tokenizer, unk_token="[UNK]", bos_token="[BOS]", eos_token="[EOS]", pad_token="[EOS]"
    ).save_pretrained(tmp_path)
    return tf.AutoTokenizer.from_pretrained(tmp_path)


def make_gpt2() -> Any:
    torch.manual_seed(3)
    config = tf.GPT2Config(
        vocab_size=V,
        n_embd=32,
        n_layer=L,
        n_head=H,
        n_positions=64,
        bos_token_id=1,
        eos_token_id=2,
        initializer_range=0.2,
    )
    return tf.GPT2LMHeadModel._from_config(config, attn_implementation="eager").eval()


def assert_same_alpha(recording: sinkscope.Recording, model: nn.Module, prompts: list[list[int]]) -> None:
    maps = [eager64(model, input_ids=torch.tensor([ids])) for ids in prompts]
    bound = max(tolerance_of(att, L * 32) for att in maps)
    assert np.abs(recording["mean.alpha"] - np.mean([alpha64(att) for att in maps], 0)).max() < bound
    assert recording.conditions["prompts"]["count"] == len(prompts) and recording["mean.alpha"].shape == (L, H, T)


class CausalSelfAttention(nn.Module):
    def __init__(self, attn: Any) -> None:
        super().__init__()
        self.c_attn, self.c_proj = attn.c_attn, attn.c_proj

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (H, -1)).transpose(1, 2) for part in self.c_attn(x).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(-2))


class Block(nn.Module):
    def __init__(self, block: Any) -> None:
        super().__init__()
        self.ln_1, self.ln_2, self.mlp = block.ln_1, block.ln_2, block.mlp
        self.attn = CausalSelfAttention(block.attn)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class NanoGPT(nn.Module):
    """A model like that of nanoGPT's model.py, without a config of transformers, but with weights of its GPT-2."""

    def __init__(self, weights: Any) -> None:
        super().__init__()
        inner = weights.transformer
        self.transformer = nn.ModuleDict(
            {"wte": inner.wte, "wpe": inner.wpe, "ln_f": inner.ln_f, "h": nn.ModuleList(map(Block, inner.h))}
        )

    def forward(self, idx: torch.Tensor, targets: Any = None) -> tuple[torch.Tensor, Any]:
        modules = self.transformer
        x = modules.wte(idx) + modules.wpe(torch.arange(idx.shape[1]))
        for block in modules.h:
            x = block(x)
        return modules.ln_f(x) @ modules.wte.weight.T, None


def test_the_lines_for_nanogpt_record_its_maps(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = make_gpt2()
    prompts = [[int(word[1:]) for word in text.split()[:T]] for text in TEXTS]
    result = run(
        "nanoGPT, and models of one's own",
        model=NanoGPT(model),
        prompts=prompts,
        decode=lambda ids: " ".join(f"w{i}" for i in ids),
    )
    assert_same_alpha(result, model, prompts)
    assert result.tokens(0) == TEXTS[0].split()[:T]
    assert sinkscope.open_recording("nanogpt.safetensors").model["id"] == "nanoGPT"


def transformer_lens(major: str) -> Any:
    lens = pytest.importorskip("transformer_lens", reason="transformer_lens is not installed")
    if not version("transformer_lens").startswith(f"{major}."):
        pytest.skip("another version of transformer_lens is installed")
    return lens


def test_the_lines_for_transformer_lens_3_record_its_maps(run: Any, tokenizer: Any) -> None:
    lens = transformer_lens("3")
    torch.manual_seed(3)
    config = lens.HookedTransformerConfig(
        n_layers=L, d_model=32, n_ctx=64, d_head=8, n_heads=H, d_vocab=V, act_fn="gelu_new", device="cpu"
    )
    model = lens.HookedTransformer(config, tokenizer=tokenizer)
    result = run("TransformerLens 3 (HookedTransformer)", model=model, texts=TEXTS, T=T)
    maps = [
        torch.stack([model.run_with_cache(model.to_tokens(text)[:, :T])[1]["pattern", i][0] for i in range(L)])
        for text in TEXTS
    ]
    assert (
        np.abs(result["mean.alpha"] - np.mean([alpha64(prompt_maps.double()) for prompt_maps in maps], 0)).max() < 1e-6
    )
    assert result.tokens(0) == ["[BOS]", *TEXTS[0].split()[: T - 1]]  # the start token is prepended
    assert result.conditions["first"]["token"] == "[BOS]"


def test_the_lines_for_transformer_lens_4_record_its_maps(run: Any, tokenizer: Any) -> None:
    transformer_lens("4")
    from transformer_lens.model_bridge import TransformerBridge

    model = make_gpt2()
    bridge = TransformerBridge.boot_transformers("gpt2", hf_model=make_gpt2(), tokenizer=tokenizer, device="cpu")
    result = run("TransformerLens 4 (TransformerBridge)", model=bridge, texts=TEXTS, T=T)
    assert_same_alpha(result, model, [bridge.to_tokens(text)[0, :T].tolist() for text in TEXTS])
    assert result.tokens(0) == ["[BOS]", *TEXTS[0].split()[: T - 1]]


def test_the_lines_for_nnsight_record_its_maps(run: Any, tokenizer: Any) -> None:
    nnsight = pytest.importorskip("nnsight", reason="nnsight is not installed")
    model = make_gpt2()
    prompts = [tokenizer(text).input_ids[:T] for text in TEXTS]
    result = run("nnsight", model=nnsight.NNsight(make_gpt2()), prompts=prompts, tokenizer=tokenizer)
    assert_same_alpha(result, model, prompts)
    assert result.tokens(0) == TEXTS[0].split()[:T]


def run_notebook(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Runs the code of a notebook in its folder, and returns its names. It is run from a file, since nnsight reads its
    source."""
    monkeypatch.chdir(README.parent)
    cells = json.loads((README.parent / name).read_text())["cells"]
    path, names = tmp_path / "notebook.py", {}
    path.write_text("\n\n".join(cell["source"] for cell in cells if cell["cell_type"] == "code"))
    exec(compile(path.read_text(), path, "exec"), names)
    return names


def assert_patched(names: dict[str, Any], patch: Callable[[Any, int], tuple[nn.Module, Callable[..., Any]]]) -> None:
    """Compares the notebook's two recordings with runs of the untouched model and under a hook of PyTorch.

    patch: takes the model and the layer; returns the module whose output is hooked, and what reads the output."""
    model = tf.AutoModelForCausalLM.from_pretrained(names["FOLDER"], attn_implementation="eager").eval()
    module, read = patch(model, names["LAYER"])
    outputs: list[torch.Tensor] = []
    handle = module.register_forward_hook(lambda *call: outputs.append(read(call[-1]).clone()))
    with torch.no_grad():
        model(names["source"])
        handle.remove()

        def replace(_: nn.Module, __: Any, output: Any) -> None:
            read(output)[:, 0] = outputs[0][:, 0]

        expected = [torch.stack(model(names["target"], output_attentions=True).attentions)[:, 0]]
        handle = module.register_forward_hook(replace)
        expected.append(torch.stack(model(names["target"], output_attentions=True).attentions)[:, 0])
        handle.remove()
    for recording, maps in zip((names["before"], names["after"]), expected, strict=True):
        assert np.abs(recording["mean.alpha"] - alpha64(maps.double())).max() < 1e-5
    assert (names["before"].conditions["class"], names["after"].conditions["class"]) == ("MEASURED", "EDITED")
    changes = np.abs(names["before"]["mean.alpha"] - names["after"]["mean.alpha"]).max((1, 2))
    assert changes[: names["LAYER"]].max() == 0 and changes[names["LAYER"] + 1 :].min() > 1e-4


def test_the_notebook_for_transformer_lens_patches_a_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transformer_lens("4")
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    names = run_notebook("patch_transformer_lens.ipynb", tmp_path, monkeypatch)
    assert_patched(names, lambda model, layer: (model.model.layers[layer].self_attn.v_proj, lambda output: output))
    layer = names["LAYER"]
    assert np.array_equal(names["before"]["mean.alpha"][layer], names["after"]["mean.alpha"][layer])


def test_the_notebook_for_nnsight_patches_a_hidden_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nnsight", reason="nnsight is not installed")
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    names = run_notebook("patch_nnsight.ipynb", tmp_path, monkeypatch)

    def read(output: Any) -> torch.Tensor:
        return output[0] if isinstance(output, tuple) else output

    assert_patched(names, lambda model, layer: (model.model.layers[layer - 1], read))
