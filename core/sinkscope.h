/*
 * Sinkscope: an attention explorer's core.
 *
 *     file bytes -> model -> run (+ edits) -> trace -> metrics -> report -> frame -> views
 *
 * Each arrow is a folder or a file; a stage reads the stages to its left and does not know those
 * to its right. This header includes the stages that are C, in that order. The core opens no
 * file, prints nothing, keeps no global state and allocates no memory: every init takes an arena on
 * memory that the caller owns, and has a twin that computes the size of that memory. (cJSON, inside
 * model/, report/ and train/, is the one user of malloc, and frees what it takes before the call
 * returns.)
 *
 * A complete use, without error checks:
 *
 *     ss_arch arch; ss_container file; ss_model model; ss_run run; ss_error err;
 *     ss_arch_read(&arch, config, &err);
 *     ss_container_open(&file, &weights, 1, &arena, &err);
 *     ss_model_open(&model, &arch, &file, &arena, &err);
 *     ss_run_init(&run, &(ss_run_desc){.model = &model, .capacity = 64,
 *                                      .fields = SS_BIT(SS_FIELD_ATT)}, &arena, &err);
 *     ss_run_extend(&run, tokens, 64, &err);
 *     ss_metric_args args = {.eps = SS_EPS_STANDARD, .T = 64};
 *     float sink[64]; // Sink_k of every key
 *     ss_metric_measure(&run.trace, index, &args, sink);
 *
 * Letters: L layers, H query heads, G key/value heads, T tokens, D model width, K head width,
 * U value width, F feed-forward width, V vocabulary, E experts. A capital is a size, a small letter
 * an index; a pointer's comment gives its shape.
 *
 * Words: a QUERY looks at KEYS and mixes their VALUES by its WEIGHTS; the SCORES are what the
 * attention operation turns into weights. A SINK is a key that receives attention from most queries
 * whatever they look for: its SINK SCORE alpha_k is the mean weight it receives, Sink_k^eps the
 * share of heads where that exceeds eps. The ROW SUM is the sum of a query's weights. VALUE DRAIN
 * is a sink's short value, a MASSIVE ACTIVATION a channel of the residual stream that dwarfs the
 * others.
 */
#ifndef SINKSCOPE_H
#define SINKSCOPE_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/pool.h"
#include "base/status.h"
#include "base/tensor.h"

#include "model/arch.h"
#include "model/files/container.h"
#include "model/files/torch_file.h"
#include "model/gguf/gguf.h"
#include "model/model.h"

#include "run/edits/edit.h"
#include "run/maps.h"
#include "run/operation.h"
#include "run/run.h"
#include "run/trace.h"

#include "metrics/metrics.h"

#include "report/describe.h"
#include "report/recording.h"

#include "train/train.h"

#endif
