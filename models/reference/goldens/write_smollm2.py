"""Writes tests/golden/smollm2 from the published SmolLM2-135M-Instruct, Q4_1.

    models/fetch/smollm2
    python -m models.reference.goldens.write_smollm2

transformers dequantizes the GGUF file to float32 and runs it with eager attention. The golden keeps a prompt of 32
tokens, every map of three layers, the residual stream of the first and of the middle token, the logits of every 97th
vocabulary entry, and 24 tokens of greedy continuation. The weights are not committed.
"""

import json
from importlib.metadata import version

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from . import GOLDEN, REPOSITORY

FETCHED, FILE = REPOSITORY / "models" / ".fetched", "SmolLM2-135M-Instruct.Q4_1.gguf"
FOLDER = GOLDEN / "smollm2"
TEXT = (
    "The little ship left the harbour before the sun was up. Nobody on the quay saw that its "
    "captain was a cat, and nobody would have believed it if they had."
)
T, LAYERS, STRIDE, STEPS = 32, (0, 14, 29), 97, 24


@torch.no_grad()
def main() -> None:
    tokenizer = AutoTokenizer.from_pretrained(FETCHED, gguf_file=FILE)
    model = AutoModelForCausalLM.from_pretrained(
        FETCHED, gguf_file=FILE, dtype=torch.float32, attn_implementation="eager"
    )
    ids = torch.tensor([tokenizer(TEXT).input_ids[:T]])
    out = model(ids, output_attentions=True, output_hidden_states=True)
    greedy_ids = ids
    for _ in range(STEPS):
        greedy_ids = torch.cat([greedy_ids, model(greedy_ids).logits[:, -1:].argmax(-1)], 1)
    hidden = torch.stack(out.hidden_states)[:-1, 0]  # the last state is after the final norm
    tensors = {
        "tokens": ids[0].to(torch.int32),
        "att": torch.stack([out.attentions[layer][0] for layer in LAYERS]),
        "hidden": hidden[:, (0, T // 2)],
        "logits": out.logits[0, :, ::STRIDE],
        "greedy": greedy_ids[0, T:].to(torch.int32),
    }
    FOLDER.mkdir(exist_ok=True)
    save_file({name: t.contiguous() for name, t in tensors.items()}, FOLDER / "golden.safetensors")
    description = {
        "written_by": "models/reference/goldens/write_smollm2.py",
        "file": FILE,
        "text": TEXT,
        "layers": LAYERS,
        "stride": STRIDE,
        "continuation": tokenizer.decode(greedy_ids[0, T:]),
        "computed_by": f"transformers {version('transformers')}, torch {version('torch')}, "
        f"gguf {version('gguf')}, float32 on dequantized weights",
    }
    (FOLDER / "golden.json").write_text(json.dumps(description, indent=2) + "\n")
    print(description["continuation"])


if __name__ == "__main__":
    main()
