#include "table.h"

#include "../../base/doc.h"
#include "rows.h"

#include <math.h>

/* Upper bound of integer parameters. They are passed as floats, which hold each integer of seven
 * digits exactly, and errors print seven digits. */
#define COUNT_MAX 9999999.0f
#define NUMBER_MAX 1e30f

#define PARAMETER(id, text, ...)                                                                   \
    { .name = id, .meaning = SS_DOC(text), __VA_ARGS__ }

/* Types of parameters. */
#define COUNT .type = SS_EDIT_INTEGER, .high = COUNT_MAX
#define NUMBER .type = SS_EDIT_NUMBER, .low = -NUMBER_MAX, .high = NUMBER_MAX
#define INDEX(letter) .type = SS_EDIT_INDEX, .below = letter
#define CHOICE(words) .type = SS_EDIT_CHOICE, .choices = words

/* Parameters without a default: a missing one selects all, or is an error. */
#define ALL .default_value = NAN
#define REQUIRED .default_value = NAN, .required = true

#define LAYER PARAMETER("layer", "absent: all", INDEX("L"), ALL)
#define HEAD PARAMETER("head", "absent: all", INDEX("H"), ALL)
#define PROMPT(what)                                                                               \
    PARAMETER("prompt",                                                                            \
              "number of first tokens that determine " what                                        \
              ", which later tokens use; 0: all tokens do, and must be given at once",             \
              COUNT)

#define PARAMETERS(...) .parameters = {__VA_ARGS__}
/* A row begins with the edit's name, meaning, label (table.h) and source. */
#define EDIT(id, text, template, reference, ...)                                                   \
    {                                                                                              \
        .name = #id, .meaning = SS_DOC(text), .label = template, .source = SS_DOC(reference),      \
        .apply = ss_apply_##id, __VA_ARGS__                                                        \
    }

static const char *const clamps[] = {"zero", "mean", "value", NULL};
static const char *const policies[] = {"window", "first",    "h2o",  "tova",   "lru",
                                       "snapkv", "key_norm", "vatp", "random", NULL};
static const char *const policy_labels[] = {"the most recent keys",
                                            "the first and the most recent keys",
                                            "the most attended keys (H2O)",
                                            "the keys the last query attends to (TOVA)",
                                            "the most recently used keys (LRU)",
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
    EDIT(operation, "heads compute another attention operation than the model's",
         "attention replaced by {operation}{at}", "Gu et al. 2025, section 7.4",
         .counterfactual = true, .hook_points = SS_AT_START,
         PARAMETERS(PARAMETER("operation", "a row of the operations, whose parameters go with it",
                              .type = SS_EDIT_OPERATION, REQUIRED),
                    LAYER, HEAD),
         .check = ss_check_operation),
    EDIT(mask,
         "queries see only the first and the most recent keys before them, whatever the model's "
         "mask",
         "only the first {first} and the last {recent} keys visible{at}",
         "Xiao et al. 2024, StreamingLLM", .counterfactual = true, .hook_points = SS_AT_START,
         PARAMETERS(PARAMETER("first", "number of first keys", COUNT, REQUIRED),
                    PARAMETER("recent", "number of most recent keys, the query's own included",
                              COUNT, .low = 1, REQUIRED),
                    LAYER, HEAD)),
    EDIT(hide_key, "a key is hidden from queries; the operation runs on the others",
         "{key} hidden[ from {query}]{at}", "attention knock-out", .counterfactual = true,
         .hook_points = SS_AT_MASK,
         PARAMETERS(PARAMETER("key", "position of the token", INDEX("T"), REQUIRED), LAYER, HEAD,
                    PARAMETER("query", "position of the query that it is hidden from; absent: all",
                              INDEX("T"), ALL)),
         .idle_tokens = ss_idle_tokens_hide_key),
    EDIT(self_only,
         "a token sees only itself, as the first token does (and a bias key where there is one)",
         "{token} sees only itself{at}", "arXiv 2605.06611", .counterfactual = true,
         .hook_points = SS_AT_MASK,
         PARAMETERS(PARAMETER("token", "its position", INDEX("T"), REQUIRED), LAYER, HEAD),
         .idle_tokens = ss_idle_tokens_before_token),
    EDIT(scale_value, "a token's value is multiplied by a factor",
         "factor=0?value of {key} zeroed{at}|value of {key} scaled by {factor}{at}",
         "Gu et al. 2025, section 3.3 (value drain)", .counterfactual = true,
         .hook_points = SS_AT_VALUES,
         PARAMETERS(PARAMETER("key", "position of the token", INDEX("T"), REQUIRED),
                    PARAMETER("factor", "0 zeroes the value, 1 keeps it", NUMBER), LAYER,
                    PARAMETER("group", "key/value head; absent: all", INDEX("G"), ALL)),
         .idle_tokens = ss_idle_tokens_before_token),
    EDIT(silence, "a head is ablated: its output is 0", "{heads} ablated",
         "Guo et al. 2024, zero_out_attn", .counterfactual = true, .hook_points = SS_AT_HEADS,
         PARAMETERS(LAYER, HEAD)),
    EDIT(park, "a head gives all of its attention to one key, where the query sees it",
         "all attention of {heads} on {key}", "Guo et al. 2024, move_attn_to_bos",
         .counterfactual = true, .hook_points = SS_AT_WEIGHTS,
         PARAMETERS(LAYER, HEAD, PARAMETER("key", "position of the token", INDEX("T"))),
         .idle_tokens = ss_idle_tokens_park),
    EDIT(clamp_channel,
         "a channel of the residual stream is set to 0, to its mean over the tokens, or to a value",
         "to=value?channel {channel} set to {value}{after}[ at {token}]|channel {channel} set to "
         "{to}{after}[ at {token}]",
         "Sun et al. 2024, table 3 (massive activations)", .counterfactual = true,
         .hook_points = SS_AT_HIDDEN,
         PARAMETERS(PARAMETER("channel", "", INDEX("D"), REQUIRED),
                    PARAMETER("layer",
                              "number of layers before it: 0 is the embedding, 1 is after layer 0; "
                              "absent: all",
                              INDEX("L+1"), ALL),
                    PARAMETER("token", "its position; absent: all", INDEX("T"), ALL),
                    PARAMETER("to", "", CHOICE(clamps)),
                    PARAMETER("value", "of `to=value`", NUMBER), PROMPT("the mean")),
         .joint_tokens = ss_joint_tokens_clamp_channel,
         .kept_numbers = ss_kept_numbers_clamp_channel,
         .idle_tokens = ss_idle_tokens_clamp_channel),
    EDIT(project,
         "the component along a token's tag is removed from every later token: along its value in "
         "each head, or along W_O v in the residual stream after the head's layer",
         "direction=random?random directions projected out of the {from}{at}|tag of {key} "
         "projected out of the {from}{at}",
         "arXiv 2502.00919 (catch, tag, release)", .counterfactual = true,
         .hook_points = SS_AT_VALUES | SS_AT_HEADS | SS_AT_HIDDEN,
         PARAMETERS(PARAMETER("direction", "the token's, or as many random ones as a control",
                              CHOICE(directions)),
                    PARAMETER("from",
                              "the residual stream after each layer, its heads together, or the "
                              "output of each head",
                              CHOICE(targets), .labels = target_labels),
                    LAYER, HEAD,
                    PARAMETER("key", "position of the token whose tag it is", INDEX("T")),
                    PARAMETER("seed", "seed of the random directions", COUNT, .default_value = 1)),
         .check = ss_check_project, .idle_tokens = ss_idle_tokens_project,
         .kept_numbers = ss_kept_numbers_project),
    EDIT(swap_positions,
         "two tokens exchange their positions (vectors, angles, or distances of at least 0), or "
         "one takes the other's",
         "replace=yes?{a} moved to the position of {b}|positions of {a} and {b} swapped",
         "Gu et al. 2025, table 7", .counterfactual = true, .needs = SS_NEEDS_POSITIONS,
         .hook_points = SS_AT_START,
         PARAMETERS(PARAMETER("a", "position of one token", INDEX("T"), REQUIRED),
                    PARAMETER("b", "position of the other", INDEX("T"), REQUIRED),
                    PARAMETER("replace", "yes: a takes the position of b, and b keeps it",
                              CHOICE(no_yes))),
         .idle_tokens = ss_idle_tokens_swap_positions),
    EDIT(evict,
         "each head's KV cache holds `budget` keys, the query's own included; keys over the budget "
         "are evicted for good before each query",
         "KV cache of {budget} keys, policy {policy}[, first tokens kept: {first}][, positions in "
         "the {positions}]{at}",
         "Xiao et al. 2024 (window, first, positions); Zhang et al. 2023 (h2o); Oren et al. 2024 "
         "(tova); Mattson et al. 1970 (lru); Li et al. 2024 (snapkv); Devoto et al. 2024 "
         "(key_norm); Guo et al. 2024 (vatp)",
         .needs = SS_NEEDS_CAUSAL, .fields = SS_BIT(SS_FIELD_EVICTED),
         .hook_points = SS_AT_MASK | SS_AT_SCORES | SS_AT_WEIGHTS, .replays = SS_AT_WEIGHTS,
         PARAMETERS(
             PARAMETER(
                 "policy",
                 "which key is evicted: the oldest (window, first), the one with the "
                 "smallest attention from all queries (h2o), from the last query (tova), the "
                 "one used least recently, that is, with more than an even share (lru), the "
                 "smallest from the last queries of the prompt (snapkv, once), the longest key "
                 "(key_norm), the smallest attention times the value's L1 norm (vatp), any "
                 "(random)",
                 CHOICE(policies), .labels = policy_labels, REQUIRED),
             PARAMETER("budget", "number of keys kept; snapkv: of the prompt", COUNT, .low = 1,
                       REQUIRED),
             PARAMETER("first", "first keys that are never evicted", COUNT),
             PARAMETER("recent",
                       "most recent keys that are never evicted; 0: half the budget for h2o "
                       "and vatp, else the query's own",
                       COUNT),
             PARAMETER("positions",
                       "positions of the keys: as in the text, or their index in the cache",
                       CHOICE(positions), .labels = position_labels),
             PARAMETER("prompt", "tokens of the prompt; snapkv only", COUNT),
             PARAMETER("queries", "last queries of the prompt that count; snapkv only", COUNT,
                       .low = 1, .default_value = 16),
             PARAMETER("pool", "neighboring keys that snapkv averages over, an odd number", COUNT,
                       .low = 1, .default_value = 5),
             PARAMETER("seed", "seed of the policy random", COUNT, .default_value = 1), LAYER,
             HEAD),
         .check = ss_check_evict, .idle_tokens = ss_idle_tokens_evict),
    EDIT(quantize, "activations or weights are rounded to `bits` bits",
         "{what} rounded to {bits} bits[ by {by}][, first {first} tokens exact]{at}",
         "round to nearest; first tokens: Liu et al. 2024, IntactKV",
         .fields = SS_BIT(SS_FIELD_ROUNDED),
         .hook_points =
             SS_AT_START | SS_AT_QUERIES | SS_AT_KEYS | SS_AT_VALUES | SS_AT_HIDDEN | SS_AT_PRODUCT,
         PARAMETERS(
             PARAMETER("what", "", CHOICE(tensors), .labels = tensor_labels, REQUIRED),
             PARAMETER("bits", "", .type = SS_EDIT_INTEGER, .low = 2, .high = 8, REQUIRED),
             PARAMETER("by", "which numbers share a scale; a channel of weights is an output",
                       CHOICE(granularities), .labels = granularity_labels, .default_value = 1),
             PARAMETER("group", "numbers in a group", COUNT, .low = 1, .default_value = 32),
             PARAMETER("symmetric",
                       "yes: range symmetric about 0; no: from the smallest to the largest "
                       "number",
                       CHOICE(no_yes), .default_value = 1),
             PARAMETER("first", "first tokens that stay exact", COUNT), LAYER,
             PROMPT("the scales of tensor and channel")),
         .check = ss_check_quantize, .joint_tokens = ss_joint_tokens_quantize,
         .kept_numbers = ss_kept_numbers_quantize),
    EDIT(scale_weight, "one weight of a matrix is multiplied by a factor",
         "factor=0?weight ({row}, {column}) of {matrix} in layer {layer} zeroed|weight ({row}, "
         "{column}) of {matrix} in layer {layer} scaled by {factor}",
         "Yu et al. 2024 (super weights)", .counterfactual = true, .hook_points = SS_AT_PRODUCT,
         PARAMETERS(PARAMETER("matrix",
                              "matrix of the attention (q, k, v, o) or of the feed-forward",
                              CHOICE(matrices), REQUIRED),
                    PARAMETER("layer", "", INDEX("L"), REQUIRED),
                    PARAMETER("row", "output of the matrix (row)", COUNT, REQUIRED),
                    PARAMETER("column", "input of the matrix (column)", COUNT, REQUIRED),
                    PARAMETER("factor", "0 zeroes the weight, 1 keeps it", NUMBER)),
         .check = ss_check_scale_weight),
};

const ss_edit_kind *ss_edits(int *n) {
    if (n) *n = (int)(sizeof table / sizeof *table);
    return table;
}
