"""Writes tests/golden/peers.json: PyTorch's results for the model files on which the bench of peers times engines.

    python -m models.reference.goldens.write_peers                every file
    python -m models.reference.goldens.write_peers gpt2.f32       these files

The bench writes the model files, with random weights. transformers dequantizes them to float32 and runs them with
eager attention. For each text, peers.json keeps the likeliest next tokens with log p, and the first weights in the last
row of the first head in the last layer.
"""

import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from ..files import read_weights
from . import GOLDEN, REPOSITORY

PEERS = REPOSITORY / "tests" / "bench" / "peers"
TOKEN_COUNT, WEIGHT_COUNT = 8, 8
EXACT_OPTIONS = {"dtype": torch.float32, "attn_implementation": "eager"}


def load_shipped_model(folder: Path) -> PreTrainedModel:
    config = LlamaConfig.from_pretrained(folder)
    config.__dict__.pop("quantization_config", None)  # read_weights dequantizes the weights
    model = LlamaForCausalLM._from_config(config, **EXACT_OPTIONS)
    model.load_state_dict(read_weights(folder / "model.safetensors"))
    return model


@torch.no_grad()
def measure_text(model: PreTrainedModel, tokens: list[int]) -> dict[str, list]:
    out = model(torch.tensor([tokens]), output_attentions=True)
    logp, token = out.logits[0, -1].log_softmax(-1).topk(TOKEN_COUNT)
    return {
        "likeliest": [[t, round(p, 6)] for t, p in zip(token.tolist(), logp.tolist(), strict=True)],
        "att": [round(a, 8) for a in out.attentions[-1][0, -1, -1, :WEIGHT_COUNT].tolist()],
    }


def main() -> None:
    file = GOLDEN / "peers.json"
    files = json.loads(file.read_text())["files"] if file.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        stdout = subprocess.run(
            ["node", PEERS / "works.mjs", folder, *sys.argv[1:]], check=True, capture_output=True, text=True
        ).stdout
        listing = json.loads(stdout)
        for request in listing["asked"]:
            if "path" in request:
                path = Path(request["path"])
                model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=path.name, **EXACT_OPTIONS)
            else:
                model = load_shipped_model(REPOSITORY / listing["shipped"]["folder"])
            model.eval()
            files[request["file"]] = {name: measure_text(model, text) for name, text in request["texts"].items()}
            print(request["file"], flush=True)
    packages = f"transformers {version('transformers')}, torch {version('torch')}, gguf {version('gguf')}"
    document = {
        "written_by": "models/reference/goldens/write_peers.py",
        "computed_by": f"{packages}, float32 on dequantized weights",
        "files": files,
    }
    file.write_text(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
