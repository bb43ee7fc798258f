/* Checkpoints of torch.save that describe their model. */
#ifndef SS_MODEL_TORCH_FILE_H
#define SS_MODEL_TORCH_FILE_H

#include "../../base/arena.h"
#include "../../base/bytes.h"
#include "../arch.h"

/* Reads the architecture from the model_args of nanoGPT's ckpt.pt, like ss_arch_read. The arena has
 * ss_container_size bytes of the file and is free afterwards. */
ss_status ss_arch_read_nanogpt(ss_arch *arch, ss_bytes file, ss_arena *arena, ss_error *err);

#endif
