/* config.c -- see config.h. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "keys.h"

#define MOST_BYTES ((size_t)16 << 20)
#define MOST_EXTENT INT64_C(2147483647)

typedef struct family {
    const char *model_type, *title;
    bool gated;          /* gate and up projections, multiplied; otherwise up alone */
    bool latent;         /* DeepSeek's attention through low-rank latents */
    keys_bias qkv, o;    /* by key: attention_bias */
    keys_bias mlp;       /* by key: mlp_bias */
    int64_t head_dim;    /* if the file has none; 0: hidden_size / heads */
    int64_t heads, kv;   /* if the file has none; 0: heads must be there, kv heads are heads */
    const char *experts; /* key of the number of routed experts, NULL: the MLP is dense */
} family;

static const family families[] = {
    {"llama", "Llama", true, false, BIAS_BY_KEY, BIAS_BY_KEY, BIAS_BY_KEY, 0, 0, 0, NULL},
    {"mistral", "Mistral", true, false, BIAS_NEVER, BIAS_NEVER, BIAS_NEVER, 0, 0, 0, NULL},
    {"qwen2", "Qwen 2", true, false, BIAS_ALWAYS, BIAS_NEVER, BIAS_NEVER, 0, 0, 0, NULL},
    {"qwen3", "Qwen 3", true, false, BIAS_BY_KEY, BIAS_BY_KEY, BIAS_NEVER, 128, 0, 0, NULL},
    {"gpt_neox", "GPT-NeoX", false, false, BIAS_KEY_OR_YES, BIAS_KEY_OR_YES, BIAS_ALWAYS, 0, 0, 0,
     NULL},
    {"gemma", "Gemma", true, false, BIAS_BY_KEY, BIAS_BY_KEY, BIAS_NEVER, 256, 0, 0, NULL},
    {"gemma2", "Gemma 2", true, false, BIAS_BY_KEY, BIAS_BY_KEY, BIAS_NEVER, 256, 0, 0, NULL},
    {"gemma3_text", "Gemma 3", true, false, BIAS_BY_KEY, BIAS_BY_KEY, BIAS_NEVER, 256, 8, 4, NULL},
    {"phi3", "Phi-3", true, false, BIAS_NEVER, BIAS_NEVER, BIAS_NEVER, 0, 0, 0, NULL},
    {"mixtral", "Mixtral", true, false, BIAS_NEVER, BIAS_NEVER, BIAS_NEVER, 0, 0, 0,
     "num_local_experts"},
    {"qwen3_moe", "Qwen 3 MoE", true, false, BIAS_BY_KEY, BIAS_BY_KEY, BIAS_NEVER, 128, 0, 0,
     "num_experts"},
    {"deepseek_v2", "DeepSeek V2", true, true, BIAS_BY_KEY, BIAS_BY_KEY, BIAS_NEVER, 0, 0, 0,
     "n_routed_experts"},
    {"deepseek_v3", "DeepSeek V3", true, true, BIAS_BY_KEY, BIAS_BY_KEY, BIAS_NEVER, 0, 0, 0,
     "n_routed_experts"},
};

typedef struct reader {
    keys key;
    const family *kind;
    const config_options *options;
    config_model *model;
    const char *name; /* of the file */
    bool backward;    /* the pass whose products are derived */
    char *error;
} reader;

/* What the attention and the MLP need to know. */
typedef struct sizes {
    int64_t hidden, ffn, heads, kv, head_dim;
} sizes;

/* ---- Products -------------------------------------------------------------------------------- */

/* A linear layer that is cut over the ranks: its columns (rows of A are gathered in front of it) or
 * its k (rows of C are summed and scattered behind it). */
typedef enum cut { CUT_COLUMNS, CUT_K } cut;

static const char *op_of(const reader *r, cut how)
{
    /* The data gradient of one cut is a product of the other. */
    const bool columns = (how == CUT_COLUMNS) != r->backward;
    if (r->options->all_reduce) return columns ? "gemm" : "gemm_ar";
    return columns ? "ag_gemm" : "gemm_rs";
}

static bool put(reader *r, const char *name, const char *op, int64_t m, int64_t n, int64_t k,
                int64_t layers, const char *epilogue, const char *widths)
{
    config_model *const model = r->model;
    if (m > MOST_EXTENT || n > MOST_EXTENT || k > MOST_EXTENT)
        return file_fail(
            r->error, "%s: product %s has m %lld, n %lld and k %lld; at most %lld is possible",
            r->name, name, (long long)m, (long long)n, (long long)k, (long long)MOST_EXTENT);
    if (model->products == CONFIG_PRODUCTS) return true;
    config_product *const p = &model->product[model->products++];
    snprintf(p->name, sizeof p->name, "%s", name);
    snprintf(p->widths, sizeof p->widths, "%s", widths);
    snprintf(p->problem, sizeof p->problem, "%s:%s:%lldx%lldx%lld:r%lld%s", op, model->type,
             (long long)m, (long long)n, (long long)k, (long long)r->options->ranks, epilogue);
    p->layers = layers;
    return true;
}

/* The product of a layer of N x K, or the gradient of its data. */
static bool put_data(reader *r, const char *name, const char *op, int64_t m, int64_t n, int64_t k,
                     int64_t layers, const char *epilogue, const char *widths)
{
    char own[16];
    const bool both = r->options->pass == CONFIG_TRAIN;
    snprintf(own, sizeof own, "%.13s%s", name, r->backward && both ? "_d" : "");
    return put(r, own, op, m, r->backward ? k : n, r->backward ? n : k, layers, epilogue, widths);
}

/* The weight gradient of a layer of N x K over ROWS tokens, transposed: its k are the tokens. */
static bool add_weights(reader *r, const char *name, bool gathers, int64_t n, int64_t k,
                        int64_t rows, int64_t layers, const char *widths)
{
    char own[16];
    snprintf(own, sizeof own, "%.13s_w", name);
    return gathers ? put(r, own, "ag_gemm", k, n, rows, layers, ":gather=k:accumulate", widths)
                   : put(r, own, "gemm", n, k, rows, layers, ":accumulate", widths);
}

static bool add(reader *r, const char *name, cut how, int64_t n, int64_t k, int64_t layers,
                bool bias, const char *act, const char *widths)
{
    const config_options *const o = r->options;
    char epilogue[64];
    snprintf(epilogue, sizeof epilogue, "%s%s", bias && !r->backward ? ":bias" : "",
             r->backward ? "" : act);
    if (!put_data(r, name, op_of(r, how), o->tokens, n, k, layers, epilogue, widths)) return false;
    return !r->backward || add_weights(r, name, how == CUT_COLUMNS && !o->all_reduce, n, k,
                                       o->tokens, layers, widths);
}

/* Fails with the possible numbers of ranks if VALUE of KEY cannot be dealt evenly. */
static bool check_divides(reader *r, const char *what, int64_t value)
{
    const int64_t ranks = r->options->ranks;
    if (value % ranks == 0) return true;
    char possible[120] = "";
    size_t at = 0;
    for (int64_t p = 1; p <= value && p <= 64; p++)
        if (value % p == 0 && at + 8 < sizeof possible)
            at += (size_t)snprintf(possible + at, sizeof possible - at, "%s%lld", at ? ", " : "",
                                   (long long)p);
    return file_fail(r->error,
                     "%s: %s %lld cannot be dealt evenly to %lld ranks; --tp %s is accepted",
                     r->name, what, (long long)value, (long long)ranks, possible);
}

/* Key and value heads of a rank: each has its own, or ranks hold copies of the same. */
static bool deal_kv(reader *r, int64_t kv, int64_t *local_out)
{
    const int64_t ranks = r->options->ranks;
    if (kv >= ranks) {
        *local_out = kv / ranks;
        return check_divides(r, "num_key_value_heads", kv);
    }
    *local_out = 1;
    if (ranks % kv == 0) return true;
    return file_fail(r->error,
                     "%s: %lld ranks cannot share num_key_value_heads %lld evenly; a --tp "
                     "that it divides, or that divides it, is accepted",
                     r->name, (long long)ranks, (long long)kv);
}

/* The problem's option for COUNT weights of so many columns that are apart, or "". */
static void share(const reader *r, const int64_t *cols, int count, char *option, size_t room)
{
    size_t at = 0;
    option[0] = '\0';
    for (int i = 0; i < count && r->options->apart && at < room; i++)
        at += (size_t)snprintf(option + at, room - at, "%s%lld", i == 0 ? ":b=" : ",",
                               (long long)cols[i]);
}

static bool add_attention(reader *r, const sizes *s)
{
    const int64_t ranks = r->options->ranks;
    const int64_t layers = r->model->layers;
    bool qkv_bias = false;
    bool o_bias = false;
    int64_t kv = 0;
    char widths[96];
    if (!check_divides(r, "num_attention_heads", s->heads) || !deal_kv(r, s->kv, &kv) ||
        !keys_take_bias(&r->key, r->kind->qkv, "attention_bias", &qkv_bias) ||
        !keys_take_bias(&r->key, r->kind->o, "attention_bias", &o_bias))
        return false;
    snprintf(widths, sizeof widths, "(%lld + 2 x %lld%s heads) x %lld",
             (long long)(s->heads / ranks), (long long)kv, s->kv < ranks ? " replicated" : "",
             (long long)s->head_dim);
    const int64_t parts[] = {s->heads / ranks * s->head_dim, kv * s->head_dim, kv * s->head_dim};
    char shared[48];
    share(r, parts, 3, shared, sizeof shared);
    if (!add(r, "qkv", CUT_COLUMNS, (s->heads / ranks + 2 * kv) * s->head_dim, s->hidden, layers,
             qkv_bias, shared, widths))
        return false;
    snprintf(widths, sizeof widths, "%lld heads x %lld", (long long)(s->heads / ranks),
             (long long)s->head_dim);
    return add(r, "o", CUT_K, s->hidden, s->heads / ranks * s->head_dim, layers, o_bias, "",
               widths);
}

/* Attention of DeepSeek V2 and V3: queries, keys and values come out of low-rank latents, which
 * every rank computes of its own rows and which are gathered in front of the second factors. */
static bool add_latent_attention(reader *r, const sizes *s)
{
    const config_options *const o = r->options;
    const int64_t layers = r->model->layers;
    const int64_t heads = s->heads / o->ranks;
    int64_t q_rank = 0;
    int64_t kv_rank = 0;
    int64_t nope = 0;
    int64_t rope = 0;
    int64_t v = 0;
    bool bias = false;
    char widths[96];
    if (!check_divides(r, "num_attention_heads", s->heads) ||
        !keys_int_or(&r->key, "q_lora_rank", 1, 0, &q_rank) ||
        !keys_int(&r->key, "kv_lora_rank", 1, &kv_rank) ||
        !keys_int(&r->key, "qk_nope_head_dim", 1, &nope) ||
        !keys_int(&r->key, "qk_rope_head_dim", 1, &rope) ||
        !keys_int(&r->key, "v_head_dim", 1, &v) ||
        !keys_take_bias(&r->key, r->kind->o, "attention_bias", &bias))
        return false;
    const int64_t own_rows = o->all_reduce ? o->tokens : (o->tokens + o->ranks - 1) / o->ranks;
    const int64_t latent = q_rank + kv_rank + rope;
    snprintf(widths, sizeof widths, "latents %lld + %lld + %lld, own rows", (long long)q_rank,
             (long long)kv_rank, (long long)rope);
    const char *const down = q_rank > 0 ? "qkv_a" : "kv_a";
    if (!put_data(r, down, "gemm", own_rows, latent, s->hidden, layers,
                  bias && !r->backward ? ":bias" : "", widths))
        return false;
    if (r->backward && !add_weights(r, down, false, latent, s->hidden, own_rows, layers, widths))
        return false;
    snprintf(widths, sizeof widths, "%lld heads x (%lld + %lld)", (long long)heads, (long long)nope,
             (long long)rope);
    if (!add(r, q_rank > 0 ? "q_b" : "q", CUT_COLUMNS, heads * (nope + rope),
             q_rank > 0 ? q_rank : s->hidden, layers, false, "", widths))
        return false;
    snprintf(widths, sizeof widths, "%lld heads x (%lld + %lld)", (long long)heads, (long long)nope,
             (long long)v);
    if (!add(r, "kv_b", CUT_COLUMNS, heads * (nope + v), kv_rank, layers, false, "", widths))
        return false;
    snprintf(widths, sizeof widths, "%lld heads x %lld", (long long)heads, (long long)v);
    return add(r, "o", CUT_K, s->hidden, heads * v, layers, bias, "", widths);
}

/* The activation that the up product can apply itself, as a problem's option. */
static bool take_act(reader *r, const char **act_out)
{
    json_t *value = keys_look(&r->key, "hidden_act");
    if (value == NULL) value = keys_look(&r->key, "hidden_activation");
    if (value != NULL && !json_is_string(value))
        return keys_bad(&r->key, "hidden_act", value, "the name of an activation");
    const char *const name = value ? json_string_value(value) : "";
    *act_out = "";
    if (r->kind->gated) return true; /* gate x up is not the product's to apply */
    if (strcmp(name, "gelu_fast") == 0 || strcmp(name, "gelu_new") == 0 ||
        strcmp(name, "gelu_pytorch_tanh") == 0)
        *act_out = ":gelu";
    else if (strcmp(name, "relu") == 0)
        *act_out = ":relu";
    else if (strcmp(name, "silu") == 0 || strcmp(name, "swish") == 0)
        *act_out = ":silu";
    else
        keys_note(
            &r->key,
            "hidden_act \"%.40s\": not applied by the up product (gelu in its tanh form, relu and "
            "silu are)",
            name);
    return true;
}

static bool add_mlp(reader *r, const sizes *s, int64_t ffn, int64_t layers, const char *up,
                    const char *down, const char *key)
{
    const int64_t ranks = r->options->ranks;
    const bool gated = r->kind->gated;
    bool bias = false;
    const char *act = "";
    char widths[96];
    if (!check_divides(r, key, ffn) || !take_act(r, &act) ||
        !keys_take_bias(&r->key, r->kind->mlp, "mlp_bias", &bias))
        return false;
    snprintf(widths, sizeof widths, "%s%lld / %lld", gated ? "2 x " : "", (long long)ffn,
             (long long)ranks);
    const int64_t parts[] = {ffn / ranks, ffn / ranks};
    char shared[48];
    share(r, parts, 2, shared, sizeof shared);
    if (!add(r, up, CUT_COLUMNS, (gated ? 2 : 1) * ffn / ranks, s->hidden, layers, bias,
             gated ? shared : act, widths))
        return false;
    snprintf(widths, sizeof widths, "%lld / %lld", (long long)ffn, (long long)ranks);
    return add(r, down, CUT_K, s->hidden, ffn / ranks, layers, bias, "", widths);
}

/* An expert's layer of N x K behind an all-to-all (or, as the second, in front of one). */
static bool add_experts(reader *r, const char *name, bool second, int64_t rows, int64_t n,
                        int64_t k, int64_t layers, const char *widths)
{
    const bool backward = r->backward;
    if (!put_data(r, name, second != backward ? "gemm_a2a" : "a2a_gemm", rows, n, k, layers, "",
                  widths))
        return false;
    return !backward || add_weights(r, name, false, n, k, rows, layers, widths);
}

/* Routed experts: rows go to the ranks of their experts and come back. */
static bool add_routed(reader *r, const sizes *s, int64_t experts, int64_t per_token, int64_t width,
                       int64_t layers)
{
    const config_options *const o = r->options;
    const char *const key = r->kind->experts;
    if (o->all_reduce || experts % o->ranks != 0) {
        keys_note(&r->key, "%s %lld: routed experts %s", key, (long long)experts,
                  o->all_reduce ? "want rows dealt over the ranks"
                                : "cannot be dealt evenly to the ranks");
        return true;
    }
    const int64_t rows = (o->tokens * per_token + o->ranks - 1) / o->ranks;
    const int64_t wide = (r->kind->gated ? 2 : 1) * width;
    char widths[96];
    snprintf(widths, sizeof widths, "%lld of %lld experts, %lld a token",
             (long long)(experts / o->ranks), (long long)experts, (long long)per_token);
    keys_note(&r->key, "which experts tokens ask for: equally often; one rank's are one product");
    return add_experts(r, "experts_up", false, rows, wide, s->hidden, layers, widths) &&
           add_experts(r, "experts_down", true, rows, s->hidden, width, layers, widths);
}

/* Layers whose MLP is dense, and the experts that every token goes through. */
static bool add_sparse_mlp(reader *r, const sizes *s)
{
    int64_t experts = 0;
    int64_t per_token = 0;
    int64_t width = 0;
    int64_t shared = 0;
    int64_t dense = 0;
    /* DeepSeek's models without experts are dense; of the other families none is. */
    if (!(r->kind->latent ? keys_int_or(&r->key, r->kind->experts, 1, 0, &experts)
                          : keys_int(&r->key, r->kind->experts, 1, &experts)) ||
        !keys_int_or(&r->key, "moe_intermediate_size", 1, s->ffn, &width) ||
        !keys_int_or(&r->key, "n_shared_experts", 0, 0, &shared) ||
        !keys_int_or(&r->key, "first_k_dense_replace", 0, 0, &dense))
        return false;
    if (experts > 0 && !keys_int(&r->key, "num_experts_per_tok", 1, &per_token)) return false;
    if (per_token > experts)
        return keys_bad(&r->key, "num_experts_per_tok", keys_look(&r->key, "num_experts_per_tok"),
                        "no more than there are experts");
    json_t *const only = keys_look(&r->key, "mlp_only_layers");
    if (json_is_array(only)) dense += (int64_t)json_array_size(only);
    if (experts == 0 || dense > r->model->layers) dense = r->model->layers;
    if (dense < r->model->layers &&
        !add_routed(r, s, experts, per_token, width, r->model->layers - dense))
        return false;
    if (dense > 0 && !add_mlp(r, s, s->ffn, dense, "gate_up", "down", "intermediate_size"))
        return false;
    if (shared == 0 || dense == r->model->layers) return true;
    return add_mlp(r, s, shared * width, r->model->layers - dense, "shared_up", "shared_down",
                   "n_shared_experts x moe_intermediate_size");
}

/* ---- The file -------------------------------------------------------------------------------- */

static bool find_family(reader *r)
{
    json_t *const nested = json_object_get(r->key.root, "text_config");
    r->key.config = json_is_object(nested) ? nested : r->key.root;
    json_t *const type = keys_look(&r->key, "model_type");
    const char *const name = json_is_string(type) ? json_string_value(type) : NULL;
    char accepted[240] = "";
    size_t at = 0;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (name != NULL && strcmp(name, families[i].model_type) == 0) {
            r->kind = &families[i];
            r->key.family = families[i].title;
            return true;
        }
        at += (size_t)snprintf(accepted + at, sizeof accepted - at, "%s%s", i ? ", " : "",
                               families[i].model_type);
    }
    if (type == NULL)
        return file_fail(r->error, "%s: key \"model_type\" is missing; accepted are %s", r->name,
                         accepted);
    if (name == NULL) return keys_bad(&r->key, "model_type", type, "the name of a family");
    return file_fail(r->error, "%s: model_type \"%.40s\" is not known; accepted are %s", r->name,
                     name, accepted);
}

static bool take_type(reader *r)
{
    static const char *const names[][2] = {
        {"bfloat16", "bf16"}, {"float16", "f16"}, {"float32", "f32"}};
    json_t *value = keys_look(&r->key, "torch_dtype");
    if (value == NULL) value = keys_look(&r->key, "dtype");
    if (value == NULL) value = json_object_get(r->key.root, "torch_dtype");
    if (value == NULL) value = json_object_get(r->key.root, "dtype");
    const char *const name = json_is_string(value) ? json_string_value(value) : "";
    const char *type = r->options->type;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (type == NULL && strcmp(name, names[i][0]) == 0) type = names[i][1];
    if (type == NULL) {
        type = "bf16";
        if (value == NULL)
            keys_note(&r->key, "torch_dtype is missing: bf16 is taken");
        else
            keys_note(&r->key, "torch_dtype \"%.40s\" is not one of ours: bf16 is taken", name);
    }
    snprintf(r->model->type, sizeof r->model->type, "%s", type);
    return true;
}

static bool take_sizes(reader *r, sizes *s)
{
    const family *const f = r->kind;
    if (!keys_int(&r->key, "hidden_size", 1, &s->hidden) ||
        !keys_int(&r->key, "intermediate_size", 1, &s->ffn) ||
        !keys_int(&r->key, "num_hidden_layers", 1, &r->model->layers))
        return false;
    if (f->heads > 0 && keys_look(&r->key, "num_attention_heads") == NULL)
        keys_note(&r->key, "num_attention_heads is missing: %lld, the family's default, is taken",
                  (long long)f->heads);
    if (f->heads > 0 ? !keys_int_or(&r->key, "num_attention_heads", 1, f->heads, &s->heads)
                     : !keys_int(&r->key, "num_attention_heads", 1, &s->heads))
        return false;
    if (!keys_int_or(&r->key, "num_key_value_heads", 1, f->kv > 0 ? f->kv : s->heads, &s->kv))
        return false;
    if (s->heads % s->kv != 0)
        return file_fail(r->error,
                         "%s: num_attention_heads %lld is not a multiple of "
                         "num_key_value_heads %lld",
                         r->name, (long long)s->heads, (long long)s->kv);
    if (f->latent) return true;
    if (f->head_dim == 0 && keys_look(&r->key, "head_dim") == NULL && s->hidden % s->heads != 0)
        return file_fail(r->error,
                         "%s: hidden_size %lld is not a multiple of num_attention_heads "
                         "%lld, and there is no head_dim",
                         r->name, (long long)s->hidden, (long long)s->heads);
    return keys_int_or(&r->key, "head_dim", 1, f->head_dim > 0 ? f->head_dim : s->hidden / s->heads,
                       &s->head_dim);
}

/* The products of one pass. */
static bool add_layer(reader *r, const sizes *s)
{
    if (!(r->kind->latent ? add_latent_attention(r, s) : add_attention(r, s))) return false;
    if (r->kind->experts != NULL) return add_sparse_mlp(r, s);
    return add_mlp(r, s, s->ffn, r->model->layers, r->kind->gated ? "gate_up" : "up", "down",
                   "intermediate_size");
}

static bool derive(reader *r)
{
    sizes s = {0, 0, 0, 0, 0};
    if (!find_family(r) || !take_type(r) || !take_sizes(r, &s)) return false;
    config_model *const model = r->model;
    model->family = r->kind->title;
    char heads[64];
    if (r->kind->latent)
        snprintf(heads, sizeof heads, "%lld latent heads", (long long)s.heads);
    else
        snprintf(heads, sizeof heads, "%lld heads of %lld, %lld kv heads", (long long)s.heads,
                 (long long)s.head_dim, (long long)s.kv);
    snprintf(model->summary, sizeof model->summary,
             "%s, %lld layers, hidden %lld, %s, ffn %lld, %s", model->family,
             (long long)model->layers, (long long)s.hidden, heads, (long long)s.ffn, model->type);
    if (r->options->pass != CONFIG_BACKWARD && !add_layer(r, &s)) return false;
    if (r->options->pass != CONFIG_FORWARD) {
        const int notes = model->notes;
        r->backward = true;
        if (!add_layer(r, &s)) return false;
        if (r->options->pass == CONFIG_TRAIN) model->notes = notes; /* they are the same again */
    }
    keys_note_rest(&r->key);
    return true;
}

bool config_pass_of(const char *word, config_pass *pass_out)
{
    static const char *const names[] = {"forward", "backward", "train"};
    for (int i = 0; i < 3; i++)
        if (strcmp(word, names[i]) == 0) {
            *pass_out = (config_pass)i;
            return true;
        }
    return false;
}

bool config_parse(const char *text, size_t bytes, const char *name, const config_options *options,
                  config_model *model_out, char *error)
{
    json_error_t where;
    json_t *const root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &where);
    if (root == NULL)
        return file_fail(error, "%s: line %d, column %d: %s", name, where.line, where.column,
                         where.text);
    config_model model;
    memset(&model, 0, sizeof model);
    reader r = {.key = {.name = name, .root = root, .model = &model, .error = error},
                .options = options,
                .model = &model,
                .name = name,
                .error = error};
    const bool ok = json_is_object(root)
                        ? derive(&r)
                        : file_fail(error, "%s: %s; an object with a model's keys is accepted",
                                    name, keys_kind(root));
    json_decref(root);
    if (ok) *model_out = model;
    return ok;
}

bool config_read(const char *path, const config_options *options, config_model *model_out,
                 char *error)
{
    if (options->apart && options->pass == CONFIG_BACKWARD)
        return file_fail(error,
                         "--apart is of the forward pass; with it --pass forward or train is "
                         "accepted");
    size_t bytes = 0;
    char *const text = file_read(path, MOST_BYTES, &bytes, error);
    if (text == NULL) return false;
    const bool ok = config_parse(text, bytes, path, options, model_out, error);
    free(text);
    return ok;
}
