/* The functions that rows of the EDIT table point to: those of apply.c, evict.c, project.c and
 * quantize.c, a paragraph each. Only table.c and these files include this header. */
#ifndef SS_RUN_EDITS_ROWS_H
#define SS_RUN_EDITS_ROWS_H

#include "../../model/arch.h"

struct ss_hook;
struct ss_pass;

#define SS_APPLY(name) void ss_apply_##name(const struct ss_hook *hook, const float *values)
#define SS_CHECK(name)                                                                             \
    ss_status ss_check_##name(const struct ss_pass *pass, const float *values, const char *where,  \
                              ss_error *err)

SS_APPLY(operation);
SS_CHECK(operation);
SS_APPLY(mask);
SS_APPLY(hide_key);
int ss_idle_tokens_hide_key(const float *values);
int ss_idle_tokens_before_token(const float *values); /* the token is the first parameter */
SS_APPLY(self_only);
SS_APPLY(scale_value);
SS_APPLY(silence);
SS_APPLY(park);
int ss_idle_tokens_park(const float *values);
SS_APPLY(clamp_channel);
int ss_joint_tokens_clamp_channel(const float *values);
size_t ss_kept_numbers_clamp_channel(const float *values, const ss_arch *arch);
int ss_idle_tokens_clamp_channel(const float *values);
SS_APPLY(swap_positions);
int ss_idle_tokens_swap_positions(const float *values);
SS_APPLY(scale_weight);
SS_CHECK(scale_weight);

SS_APPLY(evict);
SS_CHECK(evict);
int ss_idle_tokens_evict(const float *values);

SS_APPLY(project);
SS_CHECK(project);
size_t ss_kept_numbers_project(const float *values, const ss_arch *arch);
int ss_idle_tokens_project(const float *values);

SS_APPLY(quantize);
SS_CHECK(quantize);
int ss_joint_tokens_quantize(const float *values);
size_t ss_kept_numbers_quantize(const float *values, const ss_arch *arch);
/* An edit that scales or quantizes weights is refused if an earlier edit does the other. */
SS_CHECK(weights);

#endif
