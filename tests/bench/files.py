"""Makes one small file of each kind that people have, and prints what the command line or the recorder says of it:

    python3 tests/bench/files.py              the table of README.md
    python3 tests/bench/files.py MLX phi      the kinds whose names contain one of these words
    python3 tests/bench/files.py --write      writes the table into README.md

The models have random weights. Files whose numbers are tested as well are those of tests/golden.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as tf
from safetensors.torch import load_file, save_file
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models" / "record" / "src"), str(ROOT / "tests" / "record")]
import sinkscope  # noqa: E402
from foreign import Encoder, HandWritten  # noqa: E402

GOLDEN, README = ROOT / "tests" / "golden", ROOT / "tests" / "bench" / "README.md"
IDS = [5, 9, 40, 12, 33]
HEADER = "| kind | what it says |\n|---|---|\n"
SIZES: dict[str, Any] = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=4,
    intermediate_size=40,
    vocab_size=61,
    max_position_embeddings=48,
    bos_token_id=0,
    eos_token_id=1,
    pad_token_id=0,
)
Maker = Callable[[Path], Any]  # fills a folder; may return the path to open instead of the folder


# ---- files -----------------------------------------------------------------------------------------------------------


def save_base(config: type[tf.PreTrainedConfig], **more: Any) -> Maker:
    """A model as AutoModel saves it: no prefix in the names, no head."""
    return lambda folder: tf.AutoModel.from_config(config(**SIZES | more)).save_pretrained(folder)


def save_whole(config: type[tf.PreTrainedConfig], edit: dict[str, Any] | None = None, **more: Any) -> Maker:
    """A model with its head; `edit` changes config.json afterwards."""

    def make(folder: Path) -> None:
        tf.AutoModelForCausalLM.from_config(config(**SIZES | more)).save_pretrained(folder)
        text = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(text | (edit or {})))

    return make


def golden(name: str, file: str = "") -> Maker:
    def make(folder: Path) -> Path:
        shutil.copytree(GOLDEN / name, folder, dirs_exist_ok=True)
        return folder / file

    return make


def head_alone(folder: Path) -> None:
    save_whole(tf.LlamaConfig, tie_word_embeddings=True)(folder)
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"] = weights.pop("model.embed_tokens.weight")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def sharded(folder: Path) -> Path:
    model = tf.AutoModelForCausalLM.from_config(tf.LlamaConfig(**SIZES))
    model.save_pretrained(folder, max_shard_size="30KB")
    return folder / "model.safetensors.index.json"


def other_architecture(folder: Path) -> Path:
    """A GGUF file whose architecture is "lmama" rather than "llama"."""
    text = (GOLDEN / "gguf-narrow-q8_0" / "model.gguf").read_bytes()
    (folder / "model.gguf").write_bytes(text.replace(b"llama", b"lmama"))
    return folder / "model.gguf"


def torch_file(name: str, content: Any) -> Maker:
    return lambda folder: torch.save(content, folder / name)


def plain_file(name: str, content: bytes, **others: bytes) -> Maker:
    def make(folder: Path) -> None:
        for file, text in {name: content, **{key.replace("_", "."): value for key, value in others.items()}}.items():
            (folder / file).write_bytes(text)

    return make


def quantized(key: str, **method: Any) -> Maker:
    return save_whole(tf.LlamaConfig, edit={key: method})


W = torch.zeros(4, 4)
LLAMA2C_SIZES = np.array([32, 40, 2, 4, 4, 61, 48], np.int32).tobytes() + bytes(400)
LONG = {"rope_type": "longrope", "factor": 4.0, "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
MOE = dict(moe_intermediate_size=16, num_experts=4, num_experts_per_tok=2)

FILES: dict[str, Maker] = {
    **{
        f"{config.model_type} saved from AutoModel": save_base(config, **more)
        for config, more in (
            (tf.LlamaConfig, {}),
            (tf.Qwen2Config, {}),
            (tf.Qwen3Config, {"head_dim": 8}),
            (tf.MistralConfig, {}),
            (tf.Gemma3TextConfig, {"head_dim": 8}),
            (tf.PhiConfig, {}),
            (tf.GPTNeoXConfig, {}),
            (tf.GPTJConfig, {"rotary_dim": 4}),
        )
    },
    "Qwen3-Embedding: tied, no prefix": save_base(tf.Qwen3Config, head_dim=8, tie_word_embeddings=True),
    "tied, with lm_head.weight alone": head_alone,
    "a path to model.safetensors": golden("hf-llama-tied", "model.safetensors"),
    "a path to pytorch_model.bin": golden("torch-llama-tied", "pytorch_model.bin"),
    "a path to model.safetensors.index.json": sharded,
    **{
        f"GGUF with {kind.upper()} weights": golden(f"gguf-{shape}-{kind}", "model.gguf")
        for shape, kind in (
            ("narrow", "iq4_nl"),
            ("wide", "iq4_xs"),
            ("wide", "q2_k"),
            ("wide", "q3_k"),
            ("narrow", "mxfp4"),
        )
    },
    "GGUF of gpt-oss, experts in MXFP4": golden("gguf-gpt_oss-mxfp4", "model.gguf"),
    "GGUF of another architecture": other_architecture,
    "gemma, the first version": save_whole(tf.GemmaConfig, head_dim=8),
    "phi3 with longrope": save_whole(tf.Phi3Config, rope_parameters=LONG, original_max_position_embeddings=12),
    "llama with dynamic rope": save_whole(tf.LlamaConfig, rope_parameters={"rope_type": "dynamic", "factor": 2.0}),
    "llama with another rope_type": save_whole(tf.LlamaConfig, edit={"rope_parameters": {"rope_type": "other"}}),
    "stablelm with qk_layernorm": save_whole(tf.StableLmConfig, qk_layernorm=True),
    "phi with qk_layernorm": save_whole(tf.PhiConfig, qk_layernorm=True),
    "qwen3_moe with decoder_sparse_step 2": save_whole(tf.Qwen3MoeConfig, decoder_sparse_step=2, **MOE),
    "qwen3_moe with mlp_only_layers": save_whole(tf.Qwen3MoeConfig, mlp_only_layers=[0], **MOE),
    "olmoe with clip_qkv": save_whole(tf.OlmoeConfig, clip_qkv=0.1, num_experts=4, num_experts_per_tok=2),
    "deepseek_v3 with rope_interleave: false": golden("hf-deepseek_v3-halves"),
    "helium with head_dim": save_whole(tf.HeliumConfig, head_dim=8),
    "helium with heads wider than the model": save_whole(tf.HeliumConfig, head_dim=8, edit={"head_dim": 16}),
    "an unknown model_type": save_whole(tf.LlamaConfig, edit={"model_type": "novel"}),
    "nanoGPT: ckpt.pt, names with _orig_mod.": lambda folder: shutil.copy(GOLDEN / "torch-nanogpt" / "ckpt.pt", folder),
    "llama2.c: .bin": plain_file("stories.bin", LLAMA2C_SIZES),
    "llama2.c: ckpt.pt": torch_file("ckpt.pt", {"model": {"tok_embeddings.weight": W}, "model_args": {}}),
    "LitGPT": torch_file("lit_model.pth", {"transformer.h.0.attn.qkv.weight": W}),
    "Lightning": torch_file("last.ckpt", {"pytorch-lightning_version": "2.6", "state_dict": {"model.w": W}}),
    "Meta: consolidated.00.pth": torch_file("consolidated.00.pth", {"tok_embeddings.weight": W}),
    "MLX, 4 bits": quantized("quantization", group_size=64, bits=4),
    "FP8": quantized("quantization_config", quant_method="fp8"),
    "NVFP4": quantized(
        "quantization_config", quant_method="compressed-tensors", format="nvfp4-pack-quantized", config_groups={}
    ),
    "MXFP4 in safetensors": quantized("quantization_config", quant_method="mxfp4"),
    "bitsandbytes, 4 bits": quantized("quantization_config", quant_method="bitsandbytes", load_in_4bit=True),
    "ONNX": plain_file("model.onnx", b"\x08\x07", config_json=b'{"model_type": "llama"}'),
    "tokenizer.model alone": plain_file("tokenizer.model", b"\n\x0e"),
}


def run_cli(folder: Path, maker: Maker) -> str:
    folder.mkdir()
    path = maker(folder) or folder
    ids = ",".join(map(str, IDS))
    command = [ROOT / "wasm" / "cli", "measure", path, "--ids", ids, "--workers", "1"]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode == 0:
        title, *lines = process.stdout.splitlines()
        notes = [line for line in lines if line.startswith("note:")]
        return "; ".join(["opens: " + title.split(": ", 1)[1], *notes])
    return process.stderr.strip().splitlines()[-1].replace(str(folder), "FOLDER").removeprefix("sinkscope: ")


# ---- the recorder ----------------------------------------------------------------------------------------------------


def record(make: Callable[[], nn.Module], text: Any = IDS) -> Callable[[], str]:
    def run() -> str:
        recording = sinkscope.record(make().eval(), None, [text], tokens=None, progress=False)
        L, H, T = recording["mean.alpha"].shape
        return f"recorded: {L} layers, {H} heads, {T} tokens"

    return run


def llama() -> nn.Module:
    return tf.LlamaForCausalLM(tf.LlamaConfig(**SIZES))


def record_steps() -> str:
    ids = torch.tensor([IDS])
    options = dict(
        max_new_tokens=3, min_new_tokens=3, output_attentions=True, return_dict_in_generate=True, pad_token_id=0
    )
    model = tf.LlamaForCausalLM(tf.LlamaConfig(**SIZES, attn_implementation="eager"))
    out = model.generate(ids, **options)  # type: ignore[attr-defined]
    sinkscope.record_maps(out.attentions, [IDS])
    return "recorded"


NO_HEADS = {key: SIZES[key] for key in ("hidden_size", "num_hidden_layers", "vocab_size")}
XLNET = dict(vocab_size=61, d_model=32, n_layer=2, n_head=4, d_inner=40)
DEBERTA = SIZES | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
RECORDED: dict[str, Callable[[], str]] = {
    "mamba": record(lambda: tf.MambaForCausalLM(tf.MambaConfig(**NO_HEADS))),
    "rwkv": record(lambda: tf.RwkvForCausalLM(tf.RwkvConfig(**NO_HEADS))),
    "deberta-v2": record(lambda: tf.DebertaV2Model(tf.DebertaV2Config(**DEBERTA))),
    "mpnet": record(lambda: tf.MPNetModel(tf.MPNetConfig(**SIZES))),
    "xlnet": record(lambda: tf.XLNetModel(tf.XLNetConfig(**XLNET))),
    "longformer": record(lambda: tf.LongformerModel(tf.LongformerConfig(**SIZES, attention_window=[4, 4]))),
    "a softmax written by hand": record(HandWritten),
    "nn.TransformerEncoder": record(Encoder),
    "input_ids of shape [1, T] as a text": record(llama, torch.tensor([IDS])),
    "ids beyond the vocabulary": record(llama, torch.tensor([[5, 61]])),
    "record_maps(generate().attentions)": record_steps,
}


def run_recorder(run: Callable[[], str]) -> str:
    torch.manual_seed(1)
    try:
        return run()
    except ValueError as error:  # UnsupportedModel is one
        return str(error)


# ---- generated tokens ------------------------------------------------------------------------------------------------

GENERATED = "the command map with --generate 2"


def map_generated(_: Path) -> str:
    command = ["map", "models/zoo/softmax", "--text", "door", "--generate", "2", "--json"]
    process = subprocess.run([ROOT / "wasm" / "cli", *command], capture_output=True, text=True, cwd=ROOT)
    found = json.loads(process.stdout)
    return f"a map of {found['shape'][0]} tokens, the last two written by the model"


def rows(words: list[str]) -> list[tuple[str, str]]:
    def wanted(name: str) -> bool:
        return not words or any(word.lower() in name.lower() for word in words)

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        jobs = {}
        for i, (name, maker) in enumerate(FILES.items()):
            if wanted(name):
                torch.manual_seed(1)
                jobs[name] = pool.submit(run_cli, Path(folder) / str(i), maker)
        result = [(name, job.result()) for name, job in jobs.items()]
        result += [(name, run_recorder(run)) for name, run in RECORDED.items() if wanted(name)]
        result += [(GENERATED, map_generated(Path(folder)))] if wanted(GENERATED) else []
    return result


def to_table(found: list[tuple[str, str]]) -> str:
    return HEADER + "".join(f"| {name} | {said.replace('|', chr(92) + '|')} |\n" for name, said in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    tf.logging.set_verbosity_error()
    tf.logging.disable_progress_bar()
    table = to_table(rows(arguments.words))
    print(table, end="")
    if arguments.write:
        text = re.sub(re.escape(HEADER) + r"(\|.*\n)+", lambda _: table, README.read_text())
        README.write_text(text)


if __name__ == "__main__":
    main()
