#include "hook.h"

#include <math.h>

float *ss_kept_of(const ss_site *site, const float *values) {
    int i = 0;
    while (site->pass->edits[i].values != values) i++;
    return site->pass->kept[i];
}

bool ss_edit_holds(float wanted, int index) {
    return isnan(wanted) || (int)wanted == index;
}

void ss_edits_apply(const ss_site *site) {
    for (int i = 0; i < site->pass->edits_n; i++) {
        const ss_edit *edit = &site->pass->edits[i];
        const ss_edit_kind *row = &site->pass->edit_kinds[edit->kind];
        if (row->places & site->place) row->apply(site, edit->values);
    }
}
