/* Rotary positions: how far each pair of a head's dimensions turns from one token to the next. */
#ifndef SS_MODEL_ROTARY_H
#define SS_MODEL_ROTARY_H

#include "arch.h"

/* out[width/2]: radians per position of the pairs (j, j + width/2). */
void ss_rotary_turns(float *out, const ss_rotary *rotary, int width);

#endif
