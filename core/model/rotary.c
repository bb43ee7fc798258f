#include "rotary.h"

#include "../math/scalar.h"
#include "families/family.h"

#include <math.h>
#include <string.h>

#define TWO_PI 6.283185307179586

/* Refuses unknown keys, since every key here changes the frequencies. `has_sections` allows the
 * keys mrope_..., which divide the positions of an image: a text has one position for all sections.
 */
static void refuse_unknown_keys(ss_json *json, bool has_sections) {
    static const char keys[] = "rope_type\0type\0rope_theta\0factor\0low_freq_factor\0"
                               "high_freq_factor\0truncate\0beta_fast\0beta_slow\0"
                               "partial_rotary_factor\0finetuned\0attention_factor\0mscale\0"
                               "mscale_all_dim\0original_max_position_embeddings\0short_factor\0"
                               "long_factor\0short_mscale\0long_mscale\0";
    const cJSON *item;
    const cJSON *sections = cJSON_GetObjectItemCaseSensitive(json->object, "mrope_section");
    if (has_sections && sections && cJSON_GetArraySize(sections) != 3)
        ss_json_fail(json, "mrope_section", "a list of three numbers");
    cJSON_ArrayForEach(item, json->object) {
        bool is_known = cJSON_IsNull(item) || ss_is_listed(item->string, keys) ||
                        (has_sections && !strncmp(item->string, "mrope_", 6));
        if (!is_known)
            ss_json_refuse(json, item->string, "rotary positions without it", "otherwise");
    }
}

static void read_llama3(ss_rotary *rotary, ss_json *json) {
    rotary->low = ss_json_number(json, "low_freq_factor", (double)NAN, 1e-6, 1e6);
    rotary->high = ss_json_number(json, "high_freq_factor", (double)NAN, 1e-6, 1e6);
    if (rotary->high <= rotary->low)
        ss_json_refuse(json, "high_freq_factor", "more than low_freq_factor", "less");
}

double ss_yarn_attention_factor(const ss_rotary *rotary, double slope) {
    return rotary->factor > 1.0 ? 0.1 * slope * ss_log(rotary->factor) + 1.0 : 1.0;
}

static void read_yarn(ss_rotary *rotary, ss_json *json) {
    rotary->low = ss_json_number(json, "beta_slow", 1.0, 1e-6, 1e6);
    rotary->high = ss_json_number(json, "beta_fast", 32.0, 1e-6, 1e6);
    rotary->truncate = ss_json_bool(json, "truncate", true);
    double mscale = ss_json_number(json, "mscale", 0.0, 0.0, 1e6);
    double mscale_all = ss_json_number(json, "mscale_all_dim", 0.0, 0.0, 1e6);
    bool has_both_scales = mscale > 0.0 && mscale_all > 0.0;
    double attention_factor = has_both_scales ? ss_yarn_attention_factor(rotary, mscale) /
                                                    ss_yarn_attention_factor(rotary, mscale_all)
                                              : ss_yarn_attention_factor(rotary, 1.0);
    rotary->attention_factor =
        (float)ss_json_number(json, "attention_factor", attention_factor, 1e-6, 1e6);
    if (rotary->base < 1.0 + 1e-6) ss_json_refuse(json, "rope_theta", "more than 1 with yarn", "1");
}

/* Reads the list of factors at `key` into out, and returns their number. */
static int read_factors(float *out, ss_json *json, const char *key) {
    const cJSON *list = ss_json_item(json, key), *item;
    int n = 0;
    cJSON_ArrayForEach(item, list) {
        bool is_valid = cJSON_IsNumber(item) && item->valuedouble > 0.0 && n < SS_LONG_PAIRS_MAX;
        if (!is_valid) ss_json_fail(json, key, "a list of 1 to 128 positive numbers");
        if (!is_valid) return 0;
        out[n++] = (float)item->valuedouble;
    }
    if (n == 0) ss_json_fail(json, key, "a list of 1 to 128 positive numbers");
    return n;
}

static void read_long(ss_rotary *rotary, ss_json *json, int context) {
    float long_factors[SS_LONG_PAIRS_MAX];
    double original = rotary->original_context;
    double factor = ss_json_number(json, "factor", context / original, 1e-3, 1e6);
    double attention_factor = factor <= 1.0 ? 1.0 : sqrt(1.0 + ss_log(factor) / ss_log(original));
    rotary->factor = factor;
    rotary->attention_factor =
        (float)ss_json_number(json, "attention_factor", attention_factor, 1e-6, 1e6);
    rotary->pairs_n = read_factors(rotary->pair_factors, json, "short_factor");
    if (read_factors(long_factors, json, "long_factor") != rotary->pairs_n)
        ss_json_fail(json, "long_factor", "as many numbers as short_factor has");
    if (original <= 1.0)
        ss_json_fail(json, "original_max_position_embeddings", "more than one token");
}

/* Refuses what is not longrope in a family that has no other scaling. */
static const char *long_type(ss_json *json, const char *type) {
    if (!strcmp(type, "su") || !strcmp(type, "yarn")) return "longrope";
    if (strcmp(type, "default") && strcmp(type, "longrope"))
        ss_json_refuse(json, "rope_type", "\"default\" and \"longrope\"", type);
    return type;
}

static void read_scaling(ss_rotary *rotary, ss_json *json, int context) {
    const char *older_type = ss_json_text(json, "type", "default");
    const char *type = ss_json_text(json, "rope_type", older_type);
    if (rotary->only_long) type = long_type(json, type);
    int kind = SS_ROPE_LONG;
    while (kind > SS_ROPE_PLAIN && strcmp(type, ss_rope_scaling_name((ss_rope_scaling)kind)))
        kind--;
    if (kind == SS_ROPE_PROPORTIONAL) kind = SS_ROPE_PLAIN; /* refused: only gemma4.c reads it */
    if (kind == SS_ROPE_PLAIN) {
        /* dynamic changes the base of texts that are longer than the model's context, and no run
         * is. */
        bool is_dynamic = !strcmp(type, "dynamic");
        rotary->is_dynamic = is_dynamic;
        if (is_dynamic)
            ss_json_number(json, "factor", (double)NAN, 1e-3, 1e6);
        else if (strcmp(type, "default"))
            ss_json_refuse(
                json, "rope_type",
                "\"default\", \"linear\", \"dynamic\", \"llama3\", \"yarn\" and \"longrope\"",
                type);
        return;
    }
    rotary->scaling = (ss_rope_scaling)kind;
    if (rotary->original_context <= 0.0)
        rotary->original_context =
            ss_json_int(json, "original_max_position_embeddings", context, 1, SS_CONTEXT_MAX);
    if (kind == SS_ROPE_LONG) {
        read_long(rotary, json, context);
        return;
    }
    rotary->factor = ss_json_number(json, "factor", (double)NAN, 1e-3, 1e6);
    if (kind == SS_ROPE_LLAMA3) read_llama3(rotary, json);
    if (kind == SS_ROPE_YARN) read_yarn(rotary, json);
}

static void read_base_and_part(ss_rotary *rotary, ss_json *json) {
    rotary->base = ss_json_number(json, "rope_theta", rotary->base, 1.0, 1e12);
    rotary->part = ss_json_number(json, "partial_rotary_factor", rotary->part, 0.0, 1.0);
}

void ss_read_rope(ss_rotary *rotary, ss_json *rope, int context) {
    ss_refuse_nulls(rope);
    ss_refuse_null(rope, "partial_rotary_factor");
    read_base_and_part(rotary, rope);
    read_scaling(rotary, rope, context);
    refuse_unknown_keys(rope, rotary->has_sections);
}

ss_json ss_rope_object(ss_json *json) {
    ss_json scaling = ss_json_object(json, "rope_scaling");
    bool is_empty = !scaling.object || !scaling.object->child;
    return is_empty ? ss_json_object(json, "rope_parameters") : scaling;
}

void ss_read_rotary(ss_rotary *rotary, ss_json *json, int context) {
    /* As in transformers, the key beside the object has priority over the one inside. */
    if (!rotary->only_long || ss_json_item(json, "original_max_position_embeddings"))
        rotary->original_context =
            ss_json_int(json, "original_max_position_embeddings", 0, 1, SS_CONTEXT_MAX);
    rotary->attention_factor = 1.0f;
    read_base_and_part(rotary, json);
    ss_json rope = ss_rope_object(json);
    ss_read_rope(rotary, &rope, context);
}

void ss_require_rope_kinds(ss_json *json) {
    static const char *const kinds[] = {"full_attention", "sliding_attention"};
    ss_json rope = ss_json_object(json, "rope_parameters");
    if (ss_json_item(json, "rope_scaling"))
        ss_json_refuse(json, "rope_scaling", "rope_parameters alone", "this key");
    for (int i = 0; rope.object && i < 2; i++) {
        ss_json kind = ss_json_object(&rope, kinds[i]);
        if (!kind.object)
            ss_json_fail(json, "rope_parameters",
                         "an object for each kind of layers, full_attention and "
                         "sliding_attention");
        else if (!ss_json_item(&kind, "rope_theta"))
            ss_json_fail(&kind, "rope_theta", "a number, found nothing");
    }
}

void ss_require_head_dim(ss_json *json) {
    ss_json rope = ss_rope_object(json);
    const char *type = ss_json_text(&rope, "rope_type", ss_json_text(&rope, "type", "default"));
    if (!ss_is_listed(type, "default\0linear\0llama3\0") && !ss_json_item(json, "head_dim"))
        ss_json_refuse(json, "head_dim", "a number beside this rope_type", "nothing");
}

void ss_read_partial_rotary(ss_arch *arch, ss_json *json) {
    ss_read_rotary(&arch->rotary, json, arch->context);
    ss_set_rotary_width(arch);
}

void ss_set_rotary_width(ss_arch *arch) {
    arch->rotary_width = (int)(arch->K * arch->rotary.part);
    if (arch->rotary_width == 0) arch->positions = SS_POSITIONS_NONE;
}

/* Returns the fractional index of the pair that makes this many rotations over the first training's
 * context. */
static double pair_of_rotations(double rotations, const ss_rotary *rotary, int width) {
    double logarithm = ss_log(rotary->original_context / (rotations * TWO_PI));
    return width * logarithm / (2.0 * ss_log(rotary->base));
}

/* Returns how much of its original frequency pair j keeps: 1 keeps all of it, 0 divides it by the
 * factor, and YaRN's ramp leads from one to the other. */
static float yarn_original_share(const ss_rotary *rotary, int width, int j) {
    double first = pair_of_rotations(rotary->high, rotary, width);
    double last = pair_of_rotations(rotary->low, rotary, width);
    if (rotary->truncate) {
        first = floor(first);
        last = ceil(last);
    }
    first = fmax(first, 0.0);
    last = fmin(last, width - 1);
    if (first >= last && first <= last) last += 0.001;
    double ramp = (j - first) / (last - first);
    return 1.0f - (float)fmin(fmax(ramp, 0.0), 1.0);
}

/* Returns how much of its original frequency a pair keeps: 1 keeps all of it, 0 divides it by the
 * factor, and llama3's ramp leads from one to the other, by the pair's rotations over the first
 * training's context. */
static float llama3_original_share(const ss_rotary *rotary, float frequency) {
    double rotations = rotary->original_context * (double)frequency / TWO_PI;
    double ramp = (rotations - rotary->low) / (rotary->high - rotary->low);
    return (float)fmin(fmax(ramp, 0.0), 1.0);
}

/* Writes the frequencies base^(-2j/width), rounded to float as in training, after the scaling. */
void ss_rotary_frequencies(float *out, const ss_rotary *rotary, int width) {
    for (int j = 0; j < width / 2; j++) {
        float frequency = 1.0f / (float)ss_pow(rotary->base, (double)(2 * j) / (double)width);
        float share = 1.0f;
        if (rotary->scaling == SS_ROPE_LONG) {
            float power = (float)ss_pow(rotary->base, (double)(2 * j) / (double)width);
            out[j] = 1.0f / (rotary->pair_factors[j] * power);
            continue;
        }
        if (rotary->scaling == SS_ROPE_LINEAR) share = 0.0f;
        if (rotary->scaling == SS_ROPE_LLAMA3) share = llama3_original_share(rotary, frequency);
        if (rotary->scaling == SS_ROPE_YARN) share = yarn_original_share(rotary, width, j);
        if (rotary->scaling == SS_ROPE_PROPORTIONAL) {
            bool rotates = j < (int)floor(rotary->part * width / 2.0);
            out[j] = rotates ? frequency / (float)rotary->factor : 0.0f;
            continue;
        }
        float slow = share < 1.0f ? frequency / (float)rotary->factor : frequency;
        out[j] = share < 1.0f ? slow * (1.0f - share) + frequency * share : frequency;
    }
}

void ss_rotary_angles(ss_angles *angles, const float *frequencies, float factor, size_t pairs,
                      const int32_t *positions, int n) {
    for (int i = 0; i < n; i++)
        for (size_t j = 0; j < pairs; j++) {
            double angle = (double)((float)positions[i] * frequencies[j]);
            angles->cosine[(size_t)i * pairs + j] = (float)ss_cos(angle) * factor;
            angles->sine[(size_t)i * pairs + j] = (float)ss_sin(angle) * factor;
        }
}
