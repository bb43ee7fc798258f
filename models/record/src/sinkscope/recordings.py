"""Makes a recording of one model: of prompts, or of prompts with the tokens that the model generates after them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from .pairs import make_pairs
from .recorder import Prompt, Recorder, evaluation_mode, parse_edits, token_strings
from .recording import Recording
from .settings import FIELDS, Settings
from .texts import select_texts
from .watch import watching


def record(
    model: nn.Module,
    tokenizer: Any,
    texts: Iterable[Any],
    tokens: int | None = 64,
    eps: Sequence[float] = (0.1, 0.2, 0.3),
    keep: int = 2,
    *,
    generate: int = 0,
    column: str | None = None,
    take: int | None = None,
    by: str | None = None,
    fields: Sequence[str] = FIELDS,
    maps: str = "auto",
    first: int = 0,
    mask: str | None = None,
    part: str | None = None,
    batch: int = 1,
    tolerance: float = 1e-3,
    model_id: str | None = None,
    revision: str | None = None,
    file_sha256: str | None = None,
    edits: Sequence[Mapping[str, Any] | str] = (),
    source: str = "texts",
    license: str | None = None,
    command: str | None = None,
    progress: bool = True,
) -> Recording:
    """Runs each of `texts` through `model` and measures its attention.

    texts: strings, lists of token ids, or mappings of model inputs (`input_ids`, `pixel_values`). Each row of a
        mapping's batch is a prompt; tokens that its `attention_mask` hides are cut off. Or rows with columns, such as
        a `datasets.Dataset`.
    generate: how many tokens the model appends to each prompt, greedily; their rows are recorded as well, each computed
        once. The recording then has maps and their metrics alone: no norms, no loss.
    column, take, by: the rows' column of texts; the largest number of texts; a column of labels of which each gets its
        share of `take` (`sinkscope.texts.select_texts`).
    tokens: the length T that every prompt is cut to; shorter prompts are left out. None cuts all prompts to the
        length of the shortest.
    eps: the thresholds of Sink_k^eps.
    keep: number of prompts that are kept with maps and `fields` (hidden_norm, key_norm, value_norm, loss;
        q, k, v, hidden are larger).
    maps: "full" keeps float16 maps, [L, H, T, T]; "pooled" keeps at most 128 x 128 bytes for each head; "auto" keeps
        full maps up to T = 128 and pooled maps of longer prompts; "none" keeps no maps.
    first: the position that counts as the first token: 0, or that of a register or class token elsewhere.
    mask: causal, prefix or bidirectional, which decides how many queries see a key. None detects it from the model.
    part: for a model of several towers, the name of the part whose attention is recorded ("vision_model"). The part
        runs alone if it accepts the inputs, otherwise inside the whole model. Of an encoder with its decoder "encoder",
        "decoder" or "cross": `texts` are then pairs of a text and its target, mappings of both inputs, or the encoder's
        inputs alone with `generate`; both sequences are cut to those of the shortest prompt, and to `tokens` at most.
    edits: descriptions of what the caller's own hooks change in the model. The recording is then of class EDITED.
    batch: number of prompts in one forward pass. A batch that runs out of memory is repeated prompt by prompt.
    tolerance: largest accepted difference between the first prompt's logits with and without observation, in
        standard deviations of the logits.

    Raises UnsupportedModel if the attention cannot be observed, if observing it changes the logits, or if the
    recomputed weights do not give the output of the model's own attention.
    """
    settings = Settings.from_arguments(tokens, eps, keep, fields, maps, first, mask, tolerance)
    if batch < 1:
        raise ValueError(f"batch: expected 1 or more, found {batch}")
    changes = parse_edits(edits)
    recorder = Recorder(model, tokenizer, settings, part)
    selected_texts = select_texts(texts, column, take, by)
    if recorder.pair_part:
        prompts = make_pairs(recorder, selected_texts, generate)
    else:
        prompts = recorder.make_prompts(selected_texts)
    origin = {"source": source, "license": license, "command": command}
    if generate and not recorder.pair_part:
        settled = {"eps": settings.eps, "keep": keep, "first": first, "mask": mask, "edits": edits}
        identity = recorder.identity(revision, file_sha256)
        origin["model_id"] = model_id or recorder.name
        return _record_generation(recorder, prompts, generate, identity=identity, **settled, **origin)
    origin |= {"model_id": model_id, "revision": revision, "file_sha256": file_sha256}
    return recorder.record(prompts, batch, progress, changes, **origin)


@torch.no_grad()
def _record_generation(
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
