#include "hook.h"

#include <math.h>

bool ss_edit_selects(float selection, int index) {
    return isnan(selection) || (int)selection == index;
}

ss_status ss_edit_check_attention(const ss_arch *arch, float layer, const char *where,
                                  ss_error *err) {
    if (isnan(layer) || ss_attention_of(arch, (int)layer) >= 0) return SS_OK;
    return ss_fail(err, SS_BAD_REQUEST, where,
                   "expected a layer with attention, and layer %d of this %s has none", (int)layer,
                   arch->family);
}

void ss_edits_apply(ss_hook *hook) {
    for (int i = 0; i < hook->pass->edits_n; i++) {
        const ss_edit *edit = &hook->pass->edits[i];
        const ss_edit_kind *row = &hook->pass->edit_kinds[edit->kind];
        hook->numbers = hook->pass->edit_numbers[i];
        if (row->hook_points & hook->point) row->apply(hook, edit->values);
    }
}
