/* Makes training steps from their parts, as the wasm package does. */
#ifndef SS_TEST_STEPS_H
#define SS_TEST_STEPS_H

#include "train/train.h"

static inline ss_status do_all_parts(ss_train *train, bool update, ss_log_entry *entry,
                                     ss_error *err) {
    for (int part = 0; part < SS_PARTS; part++) {
        ss_status status = ss_train_part(train, part, update, err);
        if (status != SS_OK) return status;
        ss_train_add(train, part == 0);
    }
    return ss_train_finish(train, update, entry, err);
}

static inline ss_status train_step(ss_train *train, ss_log_entry *entry, ss_error *err) {
    return do_all_parts(train, true, entry, err);
}

/* Measures the weights on the next step's batch without an update. */
static inline ss_status measure_weights(ss_train *train, ss_log_entry *entry, ss_error *err) {
    return do_all_parts(train, false, entry, err);
}

#endif
