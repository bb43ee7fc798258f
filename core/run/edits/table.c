#include "table.h"

#include "../../base/doc.h"
#include "rows.h"

#include <math.h>

/* Upper bound of integer parameters. They are passed as floats, which hold each integer of seven
 * digits exactly, and errors print seven digits. */
#define COUNT_MAX 9999999.0f
#define NUMBER_MAX 1e30f

#define ALL_DEFAULT .standard = NAN
#define REQUIRED .standard = NAN, .required = true
#define LAYER                                                                                      \
    {                                                                                              \
        .name = "layer", .type = SS_EDIT_INDEX, .below = "L", ALL_DEFAULT,                         \
        .meaning = SS_DOC("absent: all")                                                           \
    }
#define HEAD                                                                                       \
    {                                                                                              \
        .name = "head", .type = SS_EDIT_INDEX, .below = "H", ALL_DEFAULT,                          \
        .meaning = SS_DOC("absent: all")                                                           \
    }
#define PROMPT(what)                                                                               \
    {                                                                                              \
        .name = "prompt", COUNT,                                                                   \
        .meaning = SS_DOC("number of first tokens that determine " what                            \
                          ", which later tokens use; 0: all tokens do, and must be given at once") \
    }
#define COUNT .type = SS_EDIT_INTEGER, .high = COUNT_MAX

static const char *const clamps[] = {"zero", "mean", "value", NULL};
static const char *const policies[] = {"window",   "first", "h2o",    "tova", "snapkv",
                                       "key_norm", "vatp",  "random", NULL};
static const char *const policy_labels[] = {"the most recent keys",
                                            "the first and the most recent keys",
                                            "the most attended keys (H2O)",
                                            "the keys the last query attends to (TOVA)",
                                            "the keys the prompt's end attends to (SnapKV)",
                                            "keys with small norms (key_norm)",
                                            "keys by attention and value norm (VATP)",
                                            "random keys",
                                            NULL};
static const char *const positions[] = {"text", "cache", NULL};
static const char *const position_labels[] = {"in the text", "in the cache", NULL};
static const char *const matrices[] = {"q", "k", "v", "o", "gate", "up", "down", NULL};
static const char *const tensors[] = {"queries", "keys", "values", "hidden", "weights", NULL};
static const char *const tensor_labels[] = {"queries",       "keys",    "values",
                                            "hidden states", "weights", NULL};
static const char *const granularities[] = {"tensor", "token", "channel", "group", NULL};
static const char *const granularity_labels[] = {"one scale per layer", "one scale per token",
                                                 "one scale per channel",
                                                 "one scale per group of values", NULL};
static const char *const directions[] = {"tag", "random", NULL};
static const char *const targets[] = {"stream", "heads", NULL};
static const char *const target_labels[] = {"the residual stream", "the output of each head", NULL};
static const char *const no_yes[] = {"no", "yes", NULL};

static const ss_edit_kind table[] = {
    {.name = "operation",
     .meaning = SS_DOC("heads compute another attention operation than the model's"),
     .label = "attention replaced by {operation}{at}",
     .counterfactual = true,
     .hook_points = SS_AT_START,
     .parameters = {{.name = "operation",
                     .type = SS_EDIT_OPERATION,
                     REQUIRED,
                     .meaning = SS_DOC("a row of the operations, whose parameters go with it")},
                    LAYER,
                    HEAD},
     .apply = ss_apply_operation,
     .check = ss_check_operation,
     .source = SS_DOC("Gu et al. 2025, section 7.4")},
    {.name = "mask",
     .meaning =
         SS_DOC("queries see only the first and the most recent keys before them, whatever the "
                "model's mask"),
     .label = "only the first {first} and the last {recent} keys visible{at}",
     .counterfactual = true,
     .hook_points = SS_AT_START,
     .parameters = {{.name = "first", COUNT, REQUIRED, .meaning = SS_DOC("number of first keys")},
                    {.name = "recent",
                     COUNT,
                     .low = 1,
                     REQUIRED,
                     .meaning = SS_DOC("number of most recent keys, the query's own included")},
                    LAYER,
                    HEAD},
     .apply = ss_apply_mask,
     .source = SS_DOC("Xiao et al. 2024, StreamingLLM")},
    {.name = "hide_key",
     .meaning = SS_DOC("a key is hidden from queries; the operation runs on the others"),
     .label = "{key} hidden[ from {query}]{at}",
     .counterfactual = true,
     .hook_points = SS_AT_MASK,
     .parameters = {{.name = "key",
                     .type = SS_EDIT_INDEX,
                     .below = "T",
                     REQUIRED,
                     .meaning = SS_DOC("position of the token")},
                    LAYER,
                    HEAD,
                    {.name = "query",
                     .type = SS_EDIT_INDEX,
                     .below = "T",
                     ALL_DEFAULT,
                     .meaning =
                         SS_DOC("position of the query that it is hidden from; absent: all")}},
     .apply = ss_apply_hide_key,
     .idle = ss_idle_hide_key,
     .source = SS_DOC("attention knock-out")},
    {.name = "self_only",
     .meaning = SS_DOC(
         "a token sees only itself, as the first token does (and a bias key where there is one)"),
     .label = "{token} sees only itself{at}",
     .counterfactual = true,
     .hook_points = SS_AT_MASK,
     .parameters = {{.name = "token",
                     .type = SS_EDIT_INDEX,
                     .below = "T",
                     REQUIRED,
                     .meaning = SS_DOC("its position")},
                    LAYER,
                    HEAD},
     .apply = ss_apply_self_only,
     .idle = ss_idle_token,
     .source = SS_DOC("arXiv 2605.06611")},
    {.name = "scale_value",
     .meaning = SS_DOC("a token's value is multiplied by a factor"),
     .label = "factor=0?value of {key} zeroed{at}|value of {key} scaled by {factor}{at}",
     .counterfactual = true,
     .hook_points = SS_AT_VALUES,
     .parameters = {{.name = "key",
                     .type = SS_EDIT_INDEX,
                     .below = "T",
                     REQUIRED,
                     .meaning = SS_DOC("position of the token")},
                    {.name = "factor",
                     .low = -NUMBER_MAX,
                     .high = NUMBER_MAX,
                     .meaning = SS_DOC("0 zeroes the value, 1 keeps it")},
                    LAYER,
                    {.name = "group",
                     .type = SS_EDIT_INDEX,
                     .below = "G",
                     ALL_DEFAULT,
                     .meaning = SS_DOC("key/value head; absent: all")}},
     .apply = ss_apply_scale_value,
     .idle = ss_idle_token,
     .source = SS_DOC("Gu et al. 2025, section 3.3 (value drain)")},
    {.name = "silence",
     .meaning = SS_DOC("a head is ablated: its output is 0"),
     .label = "{heads} ablated",
     .counterfactual = true,
     .hook_points = SS_AT_HEADS,
     .parameters = {LAYER, HEAD},
     .apply = ss_apply_silence,
     .source = SS_DOC("Guo et al. 2024, zero_out_attn")},
    {.name = "park",
     .meaning = SS_DOC("a head gives all of its attention to one key, where the query sees it"),
     .label = "all attention of {heads} on {key}",
     .counterfactual = true,
     .hook_points = SS_AT_WEIGHTS,
     .parameters = {LAYER,
                    HEAD,
                    {.name = "key",
                     .type = SS_EDIT_INDEX,
                     .below = "T",
                     .meaning = SS_DOC("position of the token")}},
     .apply = ss_apply_park,
     .idle = ss_idle_park,
     .source = SS_DOC("Guo et al. 2024, move_attn_to_bos")},
    {.name = "clamp_channel",
     .meaning = SS_DOC("a channel of the residual stream is set to 0, to its mean over the tokens, "
                       "or to a value"),
     .label = "to=value?channel {channel} set to {value}{after}[ at {token}]|channel {channel} set "
              "to {to}{after}[ at {token}]",
     .counterfactual = true,
     .hook_points = SS_AT_HIDDEN,
     .parameters =
         {{.name = "channel", .type = SS_EDIT_INDEX, .below = "D", REQUIRED, .meaning = ""},
          {.name = "layer",
           .type = SS_EDIT_INDEX,
           .below = "L+1",
           ALL_DEFAULT,
           .meaning = SS_DOC(
               "number of layers before it: 0 is the embedding, 1 is after layer 0; absent: all")},
          {.name = "token",
           .type = SS_EDIT_INDEX,
           .below = "T",
           ALL_DEFAULT,
           .meaning = SS_DOC("its position; absent: all")},
          {.name = "to", .type = SS_EDIT_CHOICE, .choices = clamps, .meaning = ""},
          {.name = "value",
           .low = -NUMBER_MAX,
           .high = NUMBER_MAX,
           .meaning = SS_DOC("of `to=value`")},
          PROMPT("the mean")},
     .apply = ss_apply_clamp_channel,
     .together = ss_together_clamp_channel,
     .keeps = ss_keeps_clamp_channel,
     .idle = ss_idle_clamp_channel,
     .source = SS_DOC("Sun et al. 2024, table 3 (massive activations)")},
    {.name = "project",
     .meaning = SS_DOC(
         "the component along a token's tag is removed from every later token: along its value in "
         "each head, or along W_O v in the residual stream after the head's layer"),
     .label = "direction=random?random directions projected out of the {from}{at}|tag of {key} "
              "projected out of the {from}{at}",
     .counterfactual = true,
     .hook_points = SS_AT_VALUES | SS_AT_HEADS | SS_AT_HIDDEN,
     .parameters = {{.name = "direction",
                     .type = SS_EDIT_CHOICE,
                     .choices = directions,
                     .meaning = SS_DOC("the token's, or as many random ones as a control")},
                    {.name = "from",
                     .type = SS_EDIT_CHOICE,
                     .choices = targets,
                     .labels = target_labels,
                     .meaning =
                         SS_DOC("the residual stream after each layer, its heads together, or the "
                                "output of each head")},
                    LAYER,
                    HEAD,
                    {.name = "key",
                     .type = SS_EDIT_INDEX,
                     .below = "T",
                     .meaning = SS_DOC("position of the token whose tag it is")},
                    {.name = "seed",
                     COUNT,
                     .standard = 1,
                     .meaning = SS_DOC("seed of the random directions")}},
     .apply = ss_apply_project,
     .check = ss_check_project,
     .idle = ss_idle_project,
     .keeps = ss_keeps_project,
     .source = SS_DOC("arXiv 2502.00919 (catch, tag, release)")},
    {.name = "swap_positions",
     .meaning =
         SS_DOC("two tokens exchange their positions (vectors, angles or distances), or one takes "
                "the other's"),
     .label = "replace=yes?{a} moved to the position of {b}|positions of {a} and {b} swapped",
     .counterfactual = true,
     .needs = SS_NEEDS_POSITIONS,
     .hook_points = SS_AT_START,
     .parameters = {{.name = "a",
                     .type = SS_EDIT_INDEX,
                     .below = "T",
                     REQUIRED,
                     .meaning = SS_DOC("position of one token")},
                    {.name = "b",
                     .type = SS_EDIT_INDEX,
                     .below = "T",
                     REQUIRED,
                     .meaning = SS_DOC("position of the other")},
                    {.name = "replace",
                     .type = SS_EDIT_CHOICE,
                     .choices = no_yes,
                     .meaning = SS_DOC("yes: a takes the position of b, and b keeps it")}},
     .apply = ss_apply_swap_positions,
     .idle = ss_idle_swap_positions,
     .source = SS_DOC("Gu et al. 2025, table 7")},
    {.name = "evict",
     .meaning =
         SS_DOC("each head's KV cache holds `budget` keys, the query's own included; keys over the "
                "budget are evicted for good before each query"),
     .label = "KV cache of {budget} keys, policy {policy}[, first tokens kept: {first}][, "
              "positions in the "
              "{positions}]{at}",
     .needs = SS_NEEDS_CAUSAL,
     .fields = SS_BIT(SS_FIELD_EVICTED),
     .hook_points = SS_AT_MASK | SS_AT_SCORES | SS_AT_WEIGHTS,
     .replays = SS_AT_WEIGHTS,
     .parameters =
         {{.name = "policy",
           .type = SS_EDIT_CHOICE,
           .choices = policies,
           .labels = policy_labels,
           REQUIRED,
           .meaning =
               SS_DOC("which key is evicted: the oldest (window, first), the one with the smallest "
                      "attention from all queries (h2o), from the last query (tova), from the "
                      "last queries of the prompt (snapkv, once), the longest key (key_norm), "
                      "the smallest attention times value norm (vatp), any (random)")},
          {.name = "budget",
           COUNT,
           .low = 1,
           REQUIRED,
           .meaning = SS_DOC("number of keys kept; snapkv: of the prompt")},
          {.name = "first", COUNT, .meaning = SS_DOC("first keys that are never evicted")},
          {.name = "recent",
           COUNT,
           .meaning = SS_DOC("most recent keys that are never evicted; 0: half the budget for "
                             "h2o and vatp, else the query's own")},
          {.name = "positions",
           .type = SS_EDIT_CHOICE,
           .choices = positions,
           .labels = position_labels,
           .meaning = SS_DOC("positions of the keys: as in the text, or their index in the cache")},
          {.name = "prompt", COUNT, .meaning = SS_DOC("tokens of the prompt; snapkv only")},
          {.name = "queries",
           COUNT,
           .low = 1,
           .standard = 16,
           .meaning = SS_DOC("last queries of the prompt that count; snapkv only")},
          {.name = "pool",
           COUNT,
           .low = 1,
           .standard = 5,
           .meaning = SS_DOC("neighboring keys that snapkv averages over, an odd number")},
          {.name = "seed", COUNT, .standard = 1, .meaning = SS_DOC("seed of the policy random")},
          LAYER,
          HEAD},
     .apply = ss_apply_evict,
     .check = ss_check_evict,
     .idle = ss_idle_evict,
     .source = SS_DOC(
         "Xiao et al. 2024 (window, first, positions); Zhang et al. 2023 (h2o); Oren et al. 2024 "
         "(tova); Li et al. 2024 (snapkv); Devoto et al. 2024 (key_norm); Guo et al. 2024 (vatp)")},
    {.name = "quantize",
     .meaning = SS_DOC("activations or weights are rounded to `bits` bits"),
     .label = "{what} rounded to {bits} bits[ by {by}][, first {first} tokens exact]{at}",
     .fields = SS_BIT(SS_FIELD_ROUNDED),
     .hook_points =
         SS_AT_START | SS_AT_QUERIES | SS_AT_KEYS | SS_AT_VALUES | SS_AT_HIDDEN | SS_AT_PRODUCT,
     .parameters =
         {{.name = "what",
           .type = SS_EDIT_CHOICE,
           .choices = tensors,
           .labels = tensor_labels,
           REQUIRED,
           .meaning = ""},
          {.name = "bits", .type = SS_EDIT_INTEGER, .low = 2, .high = 8, REQUIRED, .meaning = ""},
          {.name = "by",
           .type = SS_EDIT_CHOICE,
           .choices = granularities,
           .labels = granularity_labels,
           .standard = 1,
           .meaning = SS_DOC("which numbers share a scale; a channel of weights is an output")},
          {.name = "group",
           COUNT,
           .low = 1,
           .standard = 32,
           .meaning = SS_DOC("numbers in a group")},
          {.name = "symmetric",
           .type = SS_EDIT_CHOICE,
           .choices = no_yes,
           .standard = 1,
           .meaning =
               SS_DOC("yes: range symmetric about 0; no: from the smallest to the largest number")},
          {.name = "first", COUNT, .meaning = SS_DOC("first tokens that stay exact")},
          LAYER,
          PROMPT("the scales of tensor and channel")},
     .apply = ss_apply_quantize,
     .check = ss_check_quantize,
     .together = ss_together_quantize,
     .keeps = ss_keeps_quantize,
     .source = SS_DOC("round to nearest; first tokens: Liu et al. 2024, IntactKV")},
    {.name = "scale_weight",
     .meaning = SS_DOC("one weight of a matrix is multiplied by a factor"),
     .label = "factor=0?weight ({row}, {column}) of {matrix} in layer {layer} zeroed|weight "
              "({row}, {column}) of {matrix} in layer {layer} scaled by {factor}",
     .counterfactual = true,
     .hook_points = SS_AT_PRODUCT,
     .parameters =
         {{.name = "matrix",
           .type = SS_EDIT_CHOICE,
           .choices = matrices,
           REQUIRED,
           .meaning = SS_DOC("matrix of the attention (q, k, v, o) or of the feed-forward")},
          {.name = "layer", .type = SS_EDIT_INDEX, .below = "L", REQUIRED, .meaning = ""},
          {.name = "row", COUNT, REQUIRED, .meaning = SS_DOC("output of the matrix (row)")},
          {.name = "column", COUNT, REQUIRED, .meaning = SS_DOC("input of the matrix (column)")},
          {.name = "factor",
           .low = -NUMBER_MAX,
           .high = NUMBER_MAX,
           .meaning = SS_DOC("0 zeroes the weight, 1 keeps it")}},
     .apply = ss_apply_scale_weight,
     .check = ss_check_scale_weight,
     .source = SS_DOC("Yu et al. 2024 (super weights)")},
};

const ss_edit_kind *ss_edits(int *n) {
    *n = (int)(sizeof table / sizeof *table);
    return table;
}
