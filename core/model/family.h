/*
 * Families: one file each, translating a config.json and its tensor names into the description and
 * the weights. A new family is one row in family.c and one file.
 */
#ifndef SS_MODEL_FAMILY_H
#define SS_MODEL_FAMILY_H

#include "arch.h"
#include "load.h"

typedef struct ss_family {
    const char *name; /* model_type in config.json */
    /* Fills all of arch but its family and attention; errors stay in json. */
    void (*read)(ss_arch *arch, ss_json *json);
    /* Asks the loader for every tensor; errors stay in the loader. */
    void (*load)(ss_model *model, ss_loader *loader);
} ss_family;

/* The row of that name, or NULL. */
const ss_family *ss_family_find(const char *name);

void ss_llama_read(ss_arch *arch, ss_json *json);
void ss_llama_load(ss_model *model, ss_loader *loader);
void ss_gpt2_read(ss_arch *arch, ss_json *json);
void ss_gpt2_load(ss_model *model, ss_loader *loader);

/* Bounds for sizes in a config: far above any published model, far below overflow. */
#define SS_LAYERS_MAX 1024
#define SS_HEADS_MAX 1024
#define SS_WIDTH_MAX 65536
#define SS_FFN_MAX 1048576
#define SS_VOCABULARY_MAX 4194304
#define SS_CONTEXT_MAX 16777216

#endif
