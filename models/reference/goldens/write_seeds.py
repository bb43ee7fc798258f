"""Writes tests/fuzz/seeds: tiny model files for the fuzzers to mutate, made by the public writers of each format.

    python -m models.reference.goldens.write_seeds

All files have the same llama with 1 layer and a width of 4, in every format and many types. The values do not matter;
they are small multiples of 1/8, which every type can represent.
"""

import json
import zipfile

import gguf
import numpy as np
import torch
from safetensors.numpy import save

from . import GOLDEN

SEEDS = GOLDEN.parent / "fuzz" / "seeds"

L, H, G, D, F, V = 1, 2, 1, 4, 6, 8
K = D // H

CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": L,
    "num_attention_heads": H,
    "num_key_value_heads": G,
    "hidden_size": D,
    "intermediate_size": F,
    "vocab_size": V,
    "max_position_embeddings": 16,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
}

SHAPES = {
    "model.embed_tokens.weight": (V, D),
    "model.norm.weight": (D,),
    "model.layers.0.input_layernorm.weight": (D,),
    "model.layers.0.self_attn.q_proj.weight": (H * K, D),
    "model.layers.0.self_attn.k_proj.weight": (G * K, D),
    "model.layers.0.self_attn.v_proj.weight": (G * K, D),
    "model.layers.0.self_attn.o_proj.weight": (D, H * K),
    "model.layers.0.post_attention_layernorm.weight": (D,),
    "model.layers.0.mlp.gate_proj.weight": (F, D),
    "model.layers.0.mlp.up_proj.weight": (F, D),
    "model.layers.0.mlp.down_proj.weight": (D, F),
}

ATTENTION = "model.layers.0.self_attn"
EXPERTS = "model.layers.0.block_sparse_moe"

# Tensors that only variants have: a fuzzed config may ask for any variant.
VARIANT_SHAPES = {
    f"{ATTENTION}.bias_key": (G, K),
    f"{ATTENTION}.bias_key_value": (G, K),
    f"{ATTENTION}.value_bias": (H, K),
    f"{ATTENTION}.gate_proj.weight": (H * K, D),
    f"{ATTENTION}.kernel_in.weight": (K, K),
    f"{ATTENTION}.kernel_out.weight": (K, K),
    f"{ATTENTION}.sinks": (H,),
    "model.embed_positions.weight": (16, D),
    "model.norm.bias": (D,),
    "model.layers.0.input_layernorm.bias": (D,),
    "model.layers.0.post_attention_layernorm.bias": (D,),
    f"{EXPERTS}.gate.weight": (2, D),
    **{f"{EXPERTS}.experts.{e}.w{i}.weight": (D, F) if i == 2 else (F, D) for e in range(2) for i in (1, 2, 3)},
}
# Variants whose biases all heads share, whose gate is one number per head, and whose head outputs are added.
SHARED_SHAPES = VARIANT_SHAPES | {
    f"{ATTENTION}.bias_key": (1, K),
    f"{ATTENTION}.bias_key_value": (1, K),
    f"{ATTENTION}.value_bias": (1, K),
    f"{ATTENTION}.gate_proj.weight": (H, D),
    f"{ATTENTION}.o_proj.weight": (D, K),
}

GGUF_NAMES = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, L)


def make_weights(more_shapes: dict[str, tuple[int, ...]] | None = None) -> dict[str, np.ndarray]:
    return {
        name: (np.arange(np.prod(shape)) % 7 - 3).astype(np.float32).reshape(shape) / 8
        for name, shape in (SHAPES | (more_shapes or {})).items()
    }


def write_seed(name: str, data: bytes) -> None:
    path = SEEDS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    print(f"{name}: {len(data)} bytes")


def write_safetensors() -> None:
    data = save(make_weights(), metadata={"format": "pt"})
    write_seed("safetensors/llama.safetensors", data)
    header_length = int.from_bytes(data[:8], "little")
    write_seed("safetensors/header", data[8 : 8 + header_length])
    write_seed("safetensors/own.safetensors", save(make_weights(VARIANT_SHAPES), metadata={"format": "pt"}))
    write_seed("safetensors/shared.safetensors", save(make_weights(SHARED_SHAPES), metadata={"format": "pt"}))
    write_seed("safetensors/half", save({name: w.astype(np.float16) for name, w in make_weights().items()}))


def write_configs() -> None:
    write_seed("config/llama", json.dumps(CONFIG).encode())
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8,
    }
    write_seed("config/scaled", json.dumps(CONFIG | {"rope_scaling": scaling}).encode())
    sigmoid = {"attention": {"operation": "sigmoid", "parameters": {"bias": -2.0}}}
    write_seed("config/sigmoid", json.dumps(CONFIG | {"sinkscope": sigmoid}).encode())
    variant = {
        "attention": {"operation": "identity_norm"},
        "positions": "alibi",
        "norm": "post",
        "mask": {"kind": "prefix", "prefix": 2},
        "mask_token": 1,
        "feed_forward": "plain",
    }
    write_seed("config/variant", json.dumps(CONFIG | {"sinkscope": variant}).encode())
    head_variant = {
        "attention": {"operation": "mlp_kernel_norm"},
        "gate": "output_element",
        **dict.fromkeys(("bias_key", "bias_key_value", "value_bias"), "head"),
    }
    write_seed("config/own", json.dumps(CONFIG | {"sinkscope": head_variant}).encode())
    shared_variant = {
        "attention": {"operation": "sink_logit"},
        "gate": "output_head",
        "heads": "added",
        "positions": "learned",
        "norm_kind": "layer",
        **dict.fromkeys(("bias_key", "bias_key_value", "value_bias"), "shared"),
    }
    write_seed("config/shared", json.dumps(CONFIG | {"sinkscope": shared_variant}).encode())
    experts = {"model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": None}
    write_seed("config/experts", json.dumps(CONFIG | experts | {"sinkscope": {"gate": "output_element"}}).encode())


def write_gguf(name: str, type_name: str) -> None:
    """Writes a GGUF file whose matrices have the type F16 if this is `type_name`, and F32 otherwise. A type in blocks,
    which are longer than the rows, gets a spare tensor."""
    path = SEEDS / "gguf" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(16)
    writer.add_embedding_length(D)
    writer.add_block_count(L)
    writer.add_feed_forward_length(F)
    writer.add_head_count(H)
    writer.add_head_count_kv(G)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(K)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(V)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([chr(97 + i) for i in range(V)])
    writer.add_token_types([1] * V)
    writer.add_token_merges(["a b", "ab c"])
    writer.add_bos_token_id(0)
    quant = gguf.GGMLQuantizationType[type_name]
    block_length, size = gguf.GGML_QUANT_SIZES[quant]
    for hf_name, w in make_weights().items():
        is_half = type_name == "F16" and w.ndim == 2
        gguf_name = GGUF_NAMES.get_name(hf_name, try_suffixes=(".weight",))
        writer.add_tensor(gguf_name, w.astype(np.float16) if is_half else w)
    if block_length > 1:
        zeros = np.zeros((2, size), np.uint8)
        writer.add_tensor("spare.weight", zeros, raw_shape=zeros.shape, raw_dtype=quant)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"gguf/{name}: {path.stat().st_size} bytes")


def write_torch() -> None:
    folder = SEEDS / "torch_file"
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: torch.from_numpy(w) for name, w in make_weights().items()}
    state["lm_head.weight"] = state["model.embed_tokens.weight"]  # two names share one storage
    torch.save(state, folder / "llama")
    torch.save({"state_dict": {name: w.half() for name, w in state.items()}}, folder / "nested")
    parameters = torch.nn.ParameterDict({"w": torch.nn.Parameter(torch.ones(2, 3))})
    torch.save(
        {"w": parameters["w"], "mask": torch.ones(2, 2, dtype=torch.bool)}, folder / "parameter", pickle_protocol=4
    )
    linear = torch.nn.Linear(2, 2)
    linear.load_state_dict({"weight": torch.eye(2), "bias": torch.ones(2)})
    torch.save(linear.state_dict(), folder / "metadata")
    # The fuzzer also reads a pickle without its zip file.
    for name in ("llama", "nested", "parameter", "metadata"):
        with zipfile.ZipFile(folder / name) as archive:
            (folder / f"{name}.pkl").write_bytes(archive.read(f"{name}/data.pkl"))
    for path in sorted(folder.iterdir()):
        print(f"torch_file/{path.name}: {path.stat().st_size} bytes")


def main() -> None:
    write_safetensors()
    write_configs()
    write_gguf("llama", "F32")
    write_gguf("half", "F16")
    for name in ("Q8_0", "Q4_1", "Q5_0", "Q4_K", "Q6_K"):
        write_gguf(name.lower(), name)
    write_torch()


if __name__ == "__main__":
    main()
