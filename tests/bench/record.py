"""Memory and time of recording a long text, each way in a process of its own:

    python tests/bench/record.py                     T = 4,096, 4 layers of 8 heads
    python tests/bench/record.py --tokens 1024       another length

prints the growth of the peak resident memory over the loaded model, for a forward pass with sdpa, for
`sinkscope.record`, and for eager attention with its maps. Exits with 1 where recording takes more than
twice sdpa's memory and 100 MB. A small random llama; the ways differ in attention alone.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WAYS = ("sdpa", "record", "eager")


def peak() -> float:
    """Peak resident memory in MB; Linux counts in KB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(way: str, tokens: int) -> dict[str, float]:
    sys.path.insert(0, str(ROOT / "models" / "record" / "src"))
    import sinkscope
    import torch
    import transformers

    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=8,
        num_key_value_heads=2, vocab_size=512, max_position_embeddings=tokens)
    model = transformers.LlamaForCausalLM._from_config(
        config, attn_implementation="eager" if way == "eager" else "sdpa").eval()
    ids = torch.randint(512, (1, tokens))
    with torch.no_grad():
        model(ids[:, :64], output_attentions=way == "eager")  # what is allocated once
        sinkscope.record(model, None, [ids[0, :64].tolist()], progress=False)
        base, start = peak(), time.perf_counter()
        if way == "record":
            sinkscope.record(model, None, [ids[0].tolist()], tokens=tokens, progress=False)
        else:
            model(ids, output_attentions=way == "eager", use_cache=False)
    return {"MB": peak() - base, "seconds": time.perf_counter() - start}


def main() -> int:
    parser = argparse.ArgumentParser(description="Memory and time of recording a long text.")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--way", choices=WAYS, help="measure one way in this process, as JSON")
    options = parser.parse_args()
    if options.way:
        print(json.dumps(measure(options.way, options.tokens)))
        return 0
    found = {}
    for way in WAYS:
        out = subprocess.run([sys.executable, __file__, "--way", way, "--tokens", str(options.tokens)],
                             capture_output=True, text=True, check=True).stdout
        found[way] = json.loads(out)
        print(f"{way:7s} {found[way]['MB']:8.0f} MB  {found[way]['seconds']:6.1f} s")
    allowed = 2 * found["sdpa"]["MB"] + 100
    print(f"record: {found['record']['MB']:.0f} MB of {allowed:.0f} allowed")
    return int(found["record"]["MB"] > allowed)


if __name__ == "__main__":
    sys.exit(main())
