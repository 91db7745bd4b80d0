/* keys.c -- see keys.h. */
#include "keys.h"

#include <stdarg.h>
#include <string.h>

/* Keys that no matrix product depends on.  A star stands for any letters, at one end. */
static const char no_matter[] =
    "architectures *_dropout *_dropout_prob *_pdrop *_token_id *_token_index *_token"
    " initializer_range max_position_embeddings original_max_position_embeddings *_eps"
    " rope_* rotary_* tie_word_embeddings transformers_version use_cache vocab_size"
    " pretraining_tp sliding_window* max_window_layers use_sliding_window"
    " output_router_logits router_* *_softcapping query_pre_attn_scalar auto_map"
    " layer_types use_parallel_residual partial_rotary_factor _name_or_path cache_*"
    " use_qk_norm classifier_dropout model_type norm_topk_prob topk_* scoring_func"
    " aux_loss_alpha seq_aux ep_size routed_scaling_factor n_group moe_layer_freq"
    " use_bidirectional_attention hidden_act hidden_activation mm_tokens_per_image image_*"
    " boi_* eoi_* torch_dtype dtype attn_logit_softcapping bos_* unsloth_* max_length"
    " id2label label2id problem_type return_dict decoder_sparse_step use_mrope torchscript"
    " head_dim _attn_implementation*";

static bool fits(const char *pattern, size_t length, const char *key)
{
    const size_t key_length = strlen(key);
    if (pattern[0] == '*')
        return key_length >= length - 1 &&
               strncmp(key + key_length - (length - 1), pattern + 1, length - 1) == 0;
    if (pattern[length - 1] == '*') return strncmp(key, pattern, length - 1) == 0;
    return key_length == length && strncmp(key, pattern, length) == 0;
}

static bool matters(const char *key)
{
    for (const char *at = no_matter; *at != '\0';) {
        const size_t length = strcspn(at, " ");
        if (fits(at, length, key)) return false;
        at += length + strspn(at + length, " ");
    }
    return true;
}

const char *keys_kind(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "a number";
    case JSON_REAL: return "a number with a fraction";
    case JSON_TRUE:
    case JSON_FALSE: return "true or false";
    case JSON_NULL: break;
    }
    return "null";
}

json_t *keys_look(keys *r, const char *key)
{
    json_t *const value = json_object_get(r->config, key);
    if (value != NULL && r->used_count < KEYS_USED) r->used[r->used_count++] = key;
    return value == NULL || json_is_null(value) ? NULL : value;
}

bool keys_bad(const keys *r, const char *key, const json_t *value, const char *accepted)
{
    char text[64] = "";
    if (json_is_string(value)) snprintf(text, sizeof text, " \"%.40s\"", json_string_value(value));
    if (json_is_integer(value))
        snprintf(text, sizeof text, " %lld", (long long)json_integer_value(value));
    return file_fail(r->error, "%s: key \"%s\" is %s%s; %s is accepted", r->name, key,
                     keys_kind(value), text, accepted);
}

bool keys_int(keys *r, const char *key, int64_t least, int64_t *value_out)
{
    json_t *const value = keys_look(r, key);
    char accepted[64];
    snprintf(accepted, sizeof accepted, "a whole number from %lld to %d", (long long)least,
             (int)KEYS_MOST_VALUE);
    if (value == NULL)
        return file_fail(r->error, "%s: key \"%s\" is missing; %s needs it: %s", r->name, key,
                         r->family, accepted);
    const int64_t number = json_is_integer(value) ? json_integer_value(value) : -1;
    if (!json_is_integer(value) || number < least || number > KEYS_MOST_VALUE)
        return keys_bad(r, key, value, accepted);
    *value_out = number;
    return true;
}

/* As keys_int, FALLBACK if the key is missing or null. */
bool keys_int_or(keys *r, const char *key, int64_t least, int64_t fallback, int64_t *value_out)
{
    if (keys_look(r, key) != NULL) return keys_int(r, key, least, value_out);
    *value_out = fallback;
    return true;
}

static bool take_bool_or(keys *r, const char *key, bool fallback, bool *value_out)
{
    json_t *const value = keys_look(r, key);
    if (value != NULL && !json_is_boolean(value)) return keys_bad(r, key, value, "true or false");
    *value_out = value != NULL ? json_is_true(value) : fallback;
    return true;
}

void keys_note(keys *r, const char *format, ...)
{
    if (r->model->notes == CONFIG_NOTES) return;
    char *const text = r->model->note[r->model->notes++];
    va_list args;
    va_start(args, format);
    vsnprintf(text, CONFIG_NOTE, format, args);
    va_end(args);
    /* Keys and names come from the file: nothing of them may steer a terminal. */
    for (char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f) *c = '?';
}

bool keys_take_bias(keys *r, keys_bias rule, const char *key, bool *bias_out)
{
    bool given = false;
    const bool fallback = rule == BIAS_KEY_OR_YES || rule == BIAS_ALWAYS;
    if (!take_bool_or(r, key, fallback, &given)) return false;
    *bias_out = rule == BIAS_NEVER || rule == BIAS_ALWAYS ? fallback : given;
    if (*bias_out != given)
        keys_note(r, "%s is %s; %s has none of that choice", key, given ? "true" : "false",
                  r->family);
    return true;
}

void keys_note_rest(keys *r)
{
    char unknown[CONFIG_NOTE] = "";
    size_t at = 0;
    const char *key = NULL;
    json_t *value = NULL;
    if (json_object_get(r->root, "quantization_config") != NULL)
        keys_note(r, "quantization_config: the products are planned in %s", r->model->type);
    if (json_object_get(r->root, "vision_config") != NULL)
        keys_note(r, "vision_config: only the text model is planned");
    if (json_is_integer(json_object_get(r->config, "num_nextn_predict_layers")))
        keys_note(r, "num_nextn_predict_layers: the extra prediction layers are left out");
    json_object_foreach(r->config, key, value)
    {
        bool known = strcmp(key, "quantization_config") == 0 || strcmp(key, "vision_config") == 0 ||
                     strcmp(key, "num_nextn_predict_layers") == 0;
        for (int i = 0; i < r->used_count && !known; i++) known = strcmp(key, r->used[i]) == 0;
        if (known || !matters(key)) continue;
        const int length =
            snprintf(unknown + at, sizeof unknown - at, "%s%.40s", at ? ", " : "", key);
        at += length > 0 ? (size_t)length : 0;
        if (at + 60 >= sizeof unknown) break;
    }
    if (at > 0) keys_note(r, "keys not understood: %s", unknown);
}
