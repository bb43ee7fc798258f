#include "hook.h"

#include <math.h>

float *ss_kept_of(const ss_hook *hook, const float *values) {
    int i = 0;
    while (hook->pass->edits[i].values != values) i++;
    return hook->pass->kept[i];
}

bool ss_edit_holds(float wanted, int index) {
    return isnan(wanted) || (int)wanted == index;
}

void ss_edits_apply(const ss_hook *hook) {
    for (int i = 0; i < hook->pass->edits_n; i++) {
        const ss_edit *edit = &hook->pass->edits[i];
        const ss_edit_kind *row = &hook->pass->edit_kinds[edit->kind];
        if (row->hook_points & hook->point) row->apply(hook, edit->values);
    }
}
