"""Derives the names and shapes of a model's tensors from its architecture."""

from .model import Architecture
from .operations import OPERATIONS

Shapes = dict[str, tuple[int, ...]]


def _norm(arch: Architecture, name: str) -> Shapes:
    names = ("weight", "bias") if arch.norm_kind == "layer" else ("weight",)
    return {f"{name}.{part}": (arch.D,) for part in names}


def _feed_forward(arch: Architecture) -> Shapes:
    D, F = arch.D, arch.F
    if arch.E:
        shapes: Shapes = {"block_sparse_moe.gate.weight": (arch.E, D)}
        for e in range(arch.E):
            prefix = f"block_sparse_moe.experts.{e}."
            if arch.feed_forward == "gated":
                shapes[prefix + "w1.weight"] = (F, D)
            shapes |= {prefix + "w3.weight": (F, D), prefix + "w2.weight": (D, F)}
        return shapes
    if arch.feed_forward == "none":
        return {}
    gate: Shapes = {"mlp.gate_proj.weight": (F, D)} if arch.feed_forward == "gated" else {}
    return gate | {"mlp.up_proj.weight": (F, D), "mlp.down_proj.weight": (D, F)}


def _attention_extras(arch: Architecture) -> Shapes:
    H, G, D, K = arch.H, arch.G, arch.D, arch.K
    shapes: Shapes = {}
    if arch.operation == "sink_logit":
        shapes["sinks"] = (H,)
    for name, heads in (("bias_key", G), ("bias_key_value", G), ("value_bias", H)):
        if (owner := getattr(arch, name)) != "none":
            shapes[name] = (1 if owner == "shared" else heads, K)
    if arch.gate != "none":
        heads = H if arch.gate.startswith("output") else G
        input_width = G * K if arch.gate == "value_state" else D
        shapes["gate_proj.weight"] = (heads * (1 if arch.gate.endswith("head") else K), input_width)
    if arch.qk_norm:
        shapes |= {"q_norm.weight": (K,), "k_norm.weight": (K,)}
    if OPERATIONS[arch.operation].features == "mlp":
        shapes |= {"kernel_in.weight": (K, K), "kernel_out.weight": (K, K)}
    return {f"self_attn.{name}": shape for name, shape in shapes.items()}


def shapes(arch: Architecture) -> Shapes:
    """Returns the names and shapes of a llama's tensors, in the order in which weights are drawn."""
    D, HK, GK = arch.D, arch.H * arch.K, arch.G * arch.K
    # It norms the feed-forward's input, or the stream after it (post norms), or attention's output (sandwich norms).
    has_second_norm = arch.feed_forward != "none" or arch.norm_place == "sandwich"
    block = {
        **_norm(arch, "input_layernorm"),
        "self_attn.q_proj.weight": (HK, D),
        "self_attn.k_proj.weight": (GK, D),
        "self_attn.v_proj.weight": (GK, D),
        "self_attn.o_proj.weight": (D, arch.K if arch.heads == "added" else HK),
        **(_norm(arch, "post_attention_layernorm") if has_second_norm else {}),
        **_feed_forward(arch),
    }
    result: Shapes = {"model.embed_tokens.weight": (arch.V, D)}
    for layer in range(arch.L):
        result |= {f"model.layers.{layer}.{name}": shape for name, shape in block.items()}
    if arch.norm_place != "post":
        result |= _norm(arch, "model.norm")
    if not arch.tied:
        result["lm_head.weight"] = (arch.V, D)
    return result | variant_shapes(arch)


def variant_shapes(arch: Architecture) -> Shapes:
    """Returns the tensors of variants, drawn last, so that a variant and its baseline share all others."""
    layer_shapes = _attention_extras(arch)
    if arch.norm_place == "sandwich" and arch.feed_forward != "none":
        layer_shapes |= _norm(arch, "pre_feedforward_layernorm") | _norm(arch, "post_feedforward_layernorm")
    result = {f"model.layers.{layer}.{name}": shape for layer in range(arch.L) for name, shape in layer_shapes.items()}
    if arch.positions == "learned":
        result["model.embed_positions.weight"] = (arch.context, arch.D)
    return result
