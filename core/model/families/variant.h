/*
 * Variant: the object "sinkscope" of a config.json, which overrides parts of the family's
 * architecture: in every family the attention operation, and in llama and its nearest relatives
 * everything that Gu et al. 2025 vary in sections 4 to 7. All keys are optional:
 *
 *     "attention": {"operation": name, "parameters": {..}}
 *     "positions": "rotary", "none", "learned", "sinusoid", "alibi", "relative"
 *     "mask": {"kind": "causal"}, {"kind": "window", "window": w}, {"kind": "prefix", "prefix": p},
 *             {"kind": "bidirectional"}; "mask_token": id
 *     "bias_key", "bias_key_value", "value_bias": "head", "shared"
 *     "gate": "output_element", "output_head", "value_element", "value_head",
 *             "value_state"
 *     "norm": "pre", "post", "sandwich"; "norm_kind": "rms", "layer"
 *     "feed_forward": "gated", "plain", "none"; "heads": "joined", "added"
 */
#ifndef SS_MODEL_VARIANT_H
#define SS_MODEL_VARIANT_H

#include "../arch.h"
#include "../files/json.h"

/* Applies the keys of the object "sinkscope" to arch, which its family has filled. `all_keys`
 * allows all keys, otherwise only "attention". Unknown keys and words are refused. */
void ss_read_variant(ss_arch *arch, ss_json *json, bool all_keys);

/* The words for the enums of ss_arch, indexed by the enum; NULL for values without a word. */
extern const char *const ss_positions_words[SS_POSITIONS_N];
extern const char *const ss_norm_words[SS_NORM_N];
extern const char *const ss_ffn_words[SS_FFN_N];
extern const char *const ss_owner_words[SS_OWNER_N];
extern const char *const ss_gate_words[SS_GATE_N];

#endif
