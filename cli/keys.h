/* keys.h -- reading the keys of a config.json: typed, with defaults, remembering which were used
 * so that the rest can be named. */
#ifndef CLI_KEYS_H
#define CLI_KEYS_H

#include <jansson.h>

#include "config.h"

/* The largest value of a key: far beyond any model, and products of three fit 64 bits. */
enum { KEYS_MOST_VALUE = 1 << 20, KEYS_USED = 48 };

typedef struct keys {
    const char *name;    /* of the file */
    const char *family;  /* who needs a missing key */
    json_t *root;        /* the whole file */
    json_t *config;      /* the object that holds the sizes: root, or its text_config */
    config_model *model; /* gets the notes */
    const char *used[KEYS_USED];
    int used_count;
    char *error;
} keys;

/* Whether a linear layer has a bias: as its family always has it, or by a key. */
typedef enum keys_bias { BIAS_NEVER, BIAS_BY_KEY, BIAS_KEY_OR_YES, BIAS_ALWAYS } keys_bias;

/* The value of KEY, NULL if it is missing or null. */
json_t *keys_look(keys *r, const char *key);

/* These fail with the key, its value and what is accepted. */
bool keys_int(keys *r, const char *key, int64_t least, int64_t *value_out);
bool keys_int_or(keys *r, const char *key, int64_t least, int64_t fallback, int64_t *value_out);
bool keys_take_bias(keys *r, keys_bias rule, const char *key, bool *bias_out);
bool keys_bad(const keys *r, const char *key, const json_t *value, const char *accepted);

/* "a list", "a string", ... */
const char *keys_kind(const json_t *value);

/* Adds a line about what could not be used. */
void keys_note(keys *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Notes the keys that nobody looked at and that may matter. */
void keys_note_rest(keys *r);

#endif
