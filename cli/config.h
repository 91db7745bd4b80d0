/* config.h -- from a Hugging Face config.json, as it is published, to the tensor-parallel matrix
 * products of a layer.
 *
 * With P ranks and T tokens, and rows of the activations dealt over the ranks between the products
 * (sequence parallelism), a layer is
 *
 *     qkv   ag_gemm   T x (heads + 2 kv heads) * head_dim / P x hidden
 *     o     gemm_rs   T x hidden x heads * head_dim / P
 *     up    ag_gemm   T x ffn / P x hidden       (gate_up, 2 * ffn / P wide, if gated)
 *     down  gemm_rs   T x hidden x ffn / P
 *
 * Without it (all_reduce) the first of each pair needs no communication, the second is gemm_ar.
 * The backward pass has the data gradient of each: gather and scatter, n and k change places.  The
 * weight gradients gather along k, which no operator does yet. */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "file.h"

enum { CONFIG_PRODUCTS = 12, CONFIG_NOTES = 12, CONFIG_NOTE = 200 };

typedef struct config_options {
    int64_t ranks;
    int64_t tokens;
    bool all_reduce;  /* whole rows on every rank between the products */
    bool backward;    /* data gradients */
    const char *type; /* "f32", "bf16", "f16"; NULL: what the file says */
} config_options;

typedef struct config_product {
    char name[16];
    char problem[96];
    char widths[96]; /* where its n or k comes from, in words */
    int64_t layers;  /* how many of the model's layers have it */
} config_product;

typedef struct config_model {
    const char *family;
    char summary[160]; /* one line of its sizes */
    char type[8];
    int64_t layers;
    config_product product[CONFIG_PRODUCTS];
    int products;
    char note[CONFIG_NOTES][CONFIG_NOTE]; /* what could not be used, and why */
    int notes;
} config_model;

/* Parses BYTES of TEXT; NAME stands for it in errors, which give line and column for bad JSON and
 * the key, its value and what is accepted for everything else. */
bool config_parse(const char *text, size_t bytes, const char *name, const config_options *options,
                  config_model *model_out, char *error);
bool config_read(const char *path, const config_options *options, config_model *model_out,
                 char *error);

#endif
