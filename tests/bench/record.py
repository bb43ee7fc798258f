"""Measures the memory and time of recording a long text, each way of recording in its own process:

    python tests/bench/record.py                     T = 4,096, 4 layers of 8 heads
    python tests/bench/record.py --tokens 1024       another length
    python tests/bench/record.py --families          error and time of each family, small and random

Prints the growth of the peak resident memory over the loaded model, for a forward pass with sdpa, for
`sinkscope.record`, and for eager attention with its maps. Exits with 1 if recording takes more than
twice sdpa's memory and 100 MB. The model is a small random llama; the ways differ only in attention.
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


def peak_memory() -> float:
    """Returns the peak resident memory in MB; Linux counts in KB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(way: str, tokens: int) -> dict[str, float]:
    sys.path.insert(0, str(ROOT / "models" / "record" / "src"))
    import sinkscope
    import torch
    import transformers

    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=2,
        vocab_size=512,
        max_position_embeddings=tokens,
    )
    model = transformers.LlamaForCausalLM._from_config(
        config, attn_implementation="eager" if way == "eager" else "sdpa"
    ).eval()
    ids = torch.randint(512, (1, tokens))
    with torch.no_grad():
        model(ids[:, :64], output_attentions=way == "eager")  # Allocates the fixed buffers
        sinkscope.record(model, None, [ids[0, :64].tolist()], progress=False)
        base_memory, start = peak_memory(), time.perf_counter()
        if way == "record":
            sinkscope.record(model, None, [ids[0].tolist()], tokens=tokens, progress=False)
        else:
            model(ids, output_attentions=way == "eager", use_cache=False)
    return {"MB": peak_memory() - base_memory, "seconds": time.perf_counter() - start}


def print_families() -> None:
    """Prints a row for each family of the tests: the largest error of alpha against eager maps of transformers, the
    largest change of the logits by recording, and the time as a multiple of a forward pass."""
    sys.path[:0] = [str(ROOT / "models/record/src"), str(ROOT / "tests/record")]
    import sinkscope
    import torch
    from families import CASES, FAMILIES, T, make_inputs, run_eagerly, to_batch
    from sinkscope import metrics

    torch.set_num_threads(1)
    print("| family | attention | error of alpha | change of logits | time |\n|---|---|---|---|---|")
    for name, implementation in CASES:
        family, (prompt,) = FAMILIES[name], make_inputs(FAMILIES[name], 1)
        model = family.make(implementation)

        def run(model: torch.nn.Module = model, prompt: object = prompt) -> torch.Tensor:
            with torch.no_grad():
                return model(**to_batch(prompt)).logits

        def record(model: torch.nn.Module = model, prompt: object = prompt) -> sinkscope.Recording:
            return sinkscope.record(model, None, [prompt], tokens=T, keep=1, progress=False)

        plain_logits, recording, later_logits = run(), record(), run()
        # The eager path of Falcon adds ALiBi twice: test_families.py has its maps.
        error = (
            ""
            if name == "falcon-alibi"
            else "{:.1e}".format(
                abs(
                    recording["0.alpha_raw" if name == "gpt_oss" else "0.alpha"]
                    - metrics.alpha(
                        torch.stack(run_eagerly(name, prompt).attentions)[:, 0].double(), family.kind
                    ).numpy()
                ).max()
            )
        )
        times = []
        for function in (run, record):
            start = time.perf_counter()
            for _ in range(10):
                function()
            times.append(time.perf_counter() - start)
        print(
            f"| {name} | {implementation} | {error} | {(later_logits - plain_logits).abs().max().item():.1e} | "
            f"{times[1] / times[0]:.1f} |"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description="Memory and time of recording a long text.")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--way", choices=WAYS, help="measure one way in this process, as JSON")
    parser.add_argument("--families", action="store_true", help="error and time of each family")
    options = parser.parse_args()
    if options.families:
        print_families()
        return 0
    if options.way:
        print(json.dumps(measure(options.way, options.tokens)))
        return 0
    results = {}
    for way in WAYS:
        out = subprocess.run(
            [sys.executable, __file__, "--way", way, "--tokens", str(options.tokens)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        results[way] = json.loads(out)
        print(f"{way:7s} {results[way]['MB']:8.0f} MB  {results[way]['seconds']:6.1f} s")
    limit = 2 * results["sdpa"]["MB"] + 100
    print(f"record: {results['record']['MB']:.0f} MB of {limit:.0f} allowed")
    return int(results["record"]["MB"] > limit)


if __name__ == "__main__":
    sys.exit(main())
