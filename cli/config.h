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
 *     experts_up    a2a_gemm  T * experts per token / P x ffn x hidden      (2 * ffn, if gated)
 *     experts_down  gemm_a2a  T * experts per token / P x hidden x ffn
 *
 * if it has routed experts, which are dealt over the ranks and taken to be asked equally often; the
 * experts of a rank are counted as one product.
 *
 * Without it (all_reduce) the first of each pair needs no communication, the second is gemm_ar, and
 * routed experts are left out.  The backward pass has the data gradient of each: gather and
 * scatter, n and k change places; and the weight gradient (the name ends in _w), whose k are the
 * tokens: of a first layer the rows of its input are gathered again, along k, and of a second those
 * of its output's gradient are there from the data gradient.  A step of training is both passes;
 * data gradients then end in _d. */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "file.h"

enum { CONFIG_PRODUCTS = 40, CONFIG_NOTES = 12, CONFIG_NOTE = 200 };

typedef enum config_pass { CONFIG_FORWARD, CONFIG_BACKWARD, CONFIG_TRAIN } config_pass;

typedef struct config_options {
    int64_t ranks;
    int64_t tokens;
    bool all_reduce; /* whole rows on every rank between the products */
    bool apart; /* q k v, and gate up, are weights of their own: several B in the forward pass */
    config_pass pass; /* backward: data and weight gradients */
    const char *type; /* "f32", "bf16", "f16"; NULL: what the file says */
} config_options;

typedef struct config_product {
    char name[16];
    char problem[192];
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

/* "forward", "backward" or "train"; false for any other WORD. */
bool config_pass_of(const char *word, config_pass *pass_out);

/* Parses BYTES of TEXT; NAME stands for it in errors, which give line and column for bad JSON and
 * the key, its value and what is accepted for everything else. */
bool config_parse(const char *text, size_t bytes, const char *name, const config_options *options,
                  config_model *model_out, char *error);
bool config_read(const char *path, const config_options *options, config_model *model_out,
                 char *error);

#endif
