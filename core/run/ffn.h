/* One layer's feed-forward over a chunk of rows, experts included. Private to run/. */
#ifndef SS_RUN_FFN_H
#define SS_RUN_FFN_H

#include "pass.h"

/*
 * fed = FFN(y) for the n rows in scratch. With experts, scratch router holds the weight each had,
 * [n][E], exact zeros for those not chosen.
 */
void ss_feed_forward(ss_pass *pass, int l, int n);

#endif
