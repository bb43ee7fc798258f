"""Records prompts together with the tokens that the model generates after them."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .recorder import Prompt, Recorder, evaluation_mode, token_strings
from .recording import Recording
from .watch import watching


@torch.no_grad()
def record_generation(
    recorder: Recorder, prompts: Sequence[Prompt], generate: int, identity: Mapping[str, Any], **options: Any
) -> Recording:
    """Lets the model go on by `generate` tokens after each prompt (greedily, with its cache), and records the rows of
    all tokens. Each row is computed once, by the pass that reads its token.

    identity: which model it is, for the conditions. options: those of `record_maps`.

    Raises ValueError for a model that generates nothing, and for prompts without ids.
    """
    model = recorder.model
    if not hasattr(model, "generate") or not getattr(model, "can_generate", lambda: True)():
        raise ValueError(f"generate: expected a model that generates text, found {type(model).__name__}")
    if not isinstance(generate, int) or isinstance(generate, bool) or generate < 1:
        raise ValueError(f"generate: expected 1 or more, found {generate!r}")
    sequences = []
    with evaluation_mode(recorder.whole_model), watching(model) as seen:
        for prompt in prompts:
            if prompt.ids is None:
                raise ValueError("generate: expected prompts of token ids, found other inputs")
            inputs = {name: x.to(recorder.device) for name, x in prompt.inputs.items()}
            # The last new token is not read by the model and has no row, so that one more is needed.
            out = model.generate(
                **inputs,
                attention_mask=torch.ones_like(inputs["input_ids"]),
                do_sample=False,
                num_beams=1,
                max_new_tokens=generate + 1,
                min_new_tokens=generate + 1,
            )
            sequences.append(out[0, : len(prompt.ids) + generate].tolist())
    strings = [token_strings(recorder.tokenizer, ids) for ids in sequences]
    recording = seen.recording(sequences if recorder.tokenizer is None else strings, **options)
    recording.conditions["model"] |= identity
    recording.conditions["prompts"]["generated"] = generate
    return recording
