"""Makes the prompts of an encoder with its decoder, which read two sequences."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .attention import unwrap
from .recorder import Prompt, Recorder, evaluation_mode, token_strings

TOKEN_INPUTS = ("input_ids", "decoder_input_ids")


def make_pairs(recorder: Recorder, texts: Iterable[Any], generate: int = 0) -> list[Prompt]:
    """Converts texts to prompts of an encoder with its decoder. The tokens of both are cut to the shortest prompt's,
    and to `tokens` of the settings at most; frames and patches are not cut.

    texts: mappings with the encoder's inputs and `decoder_input_ids` or `labels`; pairs of a text and its target; or
        the encoder's texts, ids or inputs alone, after which the model generates `generate` tokens greedily.

    Raises ValueError for prompts that lack the decoder's tokens where its attention is recorded.
    """
    prompts = [prompt for text in texts for prompt in _parse(recorder, text, generate)]
    if not prompts:
        raise ValueError("texts: expected one or more, found none")
    sizes = {
        name: min([len(ids) for p in prompts if (ids := _ids(p, name))] + [recorder.settings.tokens or 2**31])
        for name in TOKEN_INPUTS
    }
    if min(sizes.values()) < 2:
        raise ValueError(f"texts: expected two tokens or more in each, found {min(sizes.values())} in the shortest")
    return [_cut(recorder, prompt, sizes) for prompt in prompts]


def make_pair(recorder: Recorder, text: Any, generate: int = 0) -> Prompt | None:
    """Converts one item to a prompt whose length does not depend on other items, as blocks of a study need it: `tokens`
    of the settings on both sides, or `generate` tokens of the decoder; None if a side has fewer."""
    prompts = _parse(recorder, text, generate)
    if len(prompts) != 1:
        raise ValueError(f"texts: expected a batch of 1, found {len(prompts)}")
    tokens = recorder.settings.tokens or 2**31
    sizes = {name: tokens for name in TOKEN_INPUTS}
    lengths = {name: len(ids) for name in TOKEN_INPUTS if (ids := _ids(prompts[0], name))}
    if generate and "decoder_input_ids" in lengths:
        sizes["decoder_input_ids"] = min(tokens, generate)
    is_short = any(length < sizes[name] for name, length in lengths.items())
    return None if is_short else _cut(recorder, prompts[0], sizes)


def _parse(recorder: Recorder, text: Any, generate: int) -> list[Prompt]:
    prompts = recorder.parse_prompts(_inputs_of(recorder, text))
    return [replace(prompt, inputs=_with_decoder_ids(recorder, prompt, generate)) for prompt in prompts]


def _ids(prompt: Prompt, name: str) -> list[int]:
    x = prompt.inputs.get(name)
    return x[0].tolist() if x is not None and x.dim() == 2 else []  # [B, T, channels] are codes of sound, no tokens


def _inputs_of(recorder: Recorder, text: Any) -> Any:
    """Returns the model's inputs for a pair of texts; other items as they are."""
    if not isinstance(text, str | Mapping) and isinstance(text, Sequence) and all(isinstance(x, str) for x in text):
        if len(text) != 2 or recorder.tokenizer is None:
            raise ValueError(f"texts: expected a text and its target, and a tokenizer, found {list(text)!r:.60}")
        encoding = recorder.tokenizer(text[0], text_target=text[1])
        return {name: torch.tensor([encoding[name]]) for name in ("input_ids", "attention_mask", "labels")}
    return text


def _with_decoder_ids(recorder: Recorder, prompt: Prompt, generate: int) -> dict[str, Tensor]:
    """Returns the inputs with `decoder_input_ids`, made of `labels` or generated; an encoder alone needs none."""
    inputs: dict[str, Tensor] = dict(prompt.inputs)
    pair: Any = unwrap(recorder.whole_model)
    labels = inputs.pop("labels", None)
    if labels is not None and "decoder_input_ids" not in inputs:
        labels = labels[:, labels[0] != -100]
        try:
            if hasattr(pair, "prepare_decoder_input_ids_from_labels"):
                inputs["decoder_input_ids"] = pair.prepare_decoder_input_ids_from_labels(labels=labels)
            else:
                start = torch.full_like(labels[:, :1], pair.config.decoder_start_token_id)
                inputs["decoder_input_ids"] = torch.cat([start, labels[:, :-1]], 1)
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(
                "decoder_start_token_id: expected the id that begins the decoder's tokens in the model's config, found "
                "none: set model.config.decoder_start_token_id, or give decoder_input_ids"
            ) from error
    if "decoder_attention_mask" in inputs:
        mask = inputs.pop("decoder_attention_mask")[0].bool()
        inputs["decoder_input_ids"] = inputs["decoder_input_ids"][:, mask]
    if generate and "decoder_input_ids" not in inputs:
        with torch.no_grad(), evaluation_mode(recorder.whole_model):
            out = pair.generate(
                **{name: x.to(recorder.device) for name, x in inputs.items()},
                do_sample=False,
                num_beams=1,
                max_new_tokens=generate,
                min_new_tokens=generate,
                use_cache=False,  # a model may have more layers in its decoder than its cache expects
            )
        inputs["decoder_input_ids"] = out[:, :generate].cpu()
    # The queries of a detector of objects are no tokens, and its forward pass takes none.
    takes_ids = "decoder_input_ids" in inspect.signature(pair.forward).parameters
    if takes_ids and "decoder_input_ids" not in inputs and recorder.pair_part != "encoder":
        raise ValueError(
            "texts: expected the decoder's tokens as well, found none: pass pairs of a text and its target, mappings "
            "with decoder_input_ids or labels, or generate=16"
        )
    return inputs


def _cut(recorder: Recorder, prompt: Prompt, sizes: Mapping[str, int]) -> Prompt:
    inputs = {name: x[:, : sizes[name]] if name in sizes else x for name, x in prompt.inputs.items()}
    pair: Any = unwrap(recorder.whole_model)
    cut = replace(prompt, inputs=inputs)
    ids, decoder_ids = (_ids(cut, name) for name in TOKEN_INPUTS)
    recorder.refuse_unknown_ids(ids, pair.get_encoder())
    recorder.refuse_unknown_ids(decoder_ids, pair.get_decoder())
    own_ids = (decoder_ids if recorder.pair_part == "decoder" else ids) or None
    tokens = None if own_ids is None else token_strings(recorder.tokenizer, own_ids)
    is_cross = recorder.pair_part == "cross" and decoder_ids
    queries = token_strings(recorder.tokenizer, decoder_ids) if is_cross else None
    return Prompt(inputs, own_ids, tokens, prompt.text, queries)
