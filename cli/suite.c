/* suite.c -- see suite.h. */
#include "suite.h"

#include <stdlib.h>
#include <string.h>

#include "out.h"
#include "shingle.h"

enum { MOST_LINES = 1000 };

/* The next word of *AT that ends before a space or a comment; its length, 0 at the end. */
static size_t take_word(const char **at, const char **word_out)
{
    *at += strspn(*at, " \t\r");
    *word_out = *at;
    const size_t length = strcspn(*at, " \t\r#");
    *at += length;
    return length;
}

/* Is there such a strategy, with such knobs?  Whether it does the problem, its run says. */
static bool knows_strategy(const suite_line *line)
{
    if (line->strategy[0] == '\0') return true;
    shingle_plan *plan = NULL;
    const shingle_plan_options options = {.strategy = line->strategy};
    const shingle_status status = shingle_plan_for(line->problem, NULL, &options, &plan);
    shingle_plan_free(plan);
    return status != SHINGLE_EINVAL;
}

/* The words of TEXT are ended in their place. */
static bool take_line(const char *path, char *text, int number, suite *s, char *error)
{
    const char *at = text;
    const char *problem = NULL;
    const char *strategy = NULL;
    const char *more = NULL;
    const size_t problem_length = take_word(&at, &problem);
    if (problem_length == 0) return true;
    const size_t strategy_length = take_word(&at, &strategy);
    if (take_word(&at, &more) > 0)
        return file_fail(error, "%s: line %d, column %zu: \"PROBLEM [STRATEGY]\" is accepted", path,
                         number, (size_t)(more - text) + 1);
    text[problem - text + (ptrdiff_t)problem_length] = '\0';
    text[strategy - text + (ptrdiff_t)strategy_length] = '\0';
    suite_line line = {.number = number, .problem = problem, .strategy = strategy};
    shingle_shape shape;
    if (shingle_problem_shape(line.problem, 0, &shape) != SHINGLE_OK)
        return file_fail(error, "%s: line %d: %s", path, number, shingle_error());
    if (shape.ranks > SUITE_RANKS)
        return file_fail(error, "%s: line %d: %d ranks; 1 to %d can run in one process", path,
                         number, shape.ranks, (int)SUITE_RANKS);
    if (!knows_strategy(&line))
        return file_fail(error, "%s: line %d: %s", path, number, shingle_error());
    if (s->lines == MOST_LINES)
        return file_fail(error, "%s: line %d: more than %d problems", path, number,
                         (int)MOST_LINES);
    line.ranks = shape.ranks;
    memcpy(line.type, shape.type, sizeof line.type);
    s->line[s->lines++] = line;
    return true;
}

bool suite_read(const char *path, suite *suite_out, char *error)
{
    size_t bytes = 0;
    suite s = {.line = out_get(MOST_LINES * sizeof *s.line)};
    char *const text = s.text = file_read(path, (size_t)1 << 20, &bytes, error);
    bool ok = text != NULL;
    if (ok && strlen(text) != bytes)
        ok = file_fail(error, "%s: a byte of value 0; a suite is text", path);
    if (ok && strncmp(text, "\xef\xbb\xbf", 3) == 0)
        ok = file_fail(error, "%s: a byte order mark at its start; a suite is text without one",
                       path);
    int number = 1;
    for (char *at = text; ok && at != NULL; number++) {
        char *const end = strchr(at, '\n');
        if (end != NULL) *end = '\0';
        ok = take_line(path, at, number, &s, error);
        at = end != NULL ? end + 1 : NULL;
    }
    if (ok && s.lines == 0) ok = file_fail(error, "%s: no problem in it", path);
    if (ok)
        *suite_out = s;
    else
        suite_free(&s);
    return ok;
}

void suite_free(suite *s)
{
    free(s->line);
    free(s->text);
    s->line = NULL;
    s->text = NULL;
    s->lines = 0;
}
