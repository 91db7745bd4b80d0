/* out.c -- see out.h. */
#include "out.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"

static const char *command_name = "";
static bool progress_shown;

/* ---- Messages -------------------------------------------------------------------------------- */

void out_begin(const char *command)
{
    command_name = command;
}

/* Whatever a file name or a variable contains: nothing of it breaks a line or steers a terminal. */
static void make_one_line(char *text)
{
    for (char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
}

int out_error(int code, const char *format, ...)
{
    char text[1200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    make_one_line(text);
    out_progress_end();
    fprintf(stderr, "shingle%s%s: %s\n", command_name[0] ? " " : "", command_name, text);
    return code;
}

int out_code(shingle_status status)
{
    switch (status) {
    case SHINGLE_OK: return CLI_OK;
    case SHINGLE_EINVAL:
    case SHINGLE_EUNSUPPORTED:
    case SHINGLE_EIO: return CLI_USAGE; /* the library opens files to read them only */
    case SHINGLE_ENOMEM:
    case SHINGLE_ETIMEOUT:
    case SHINGLE_EMISMATCH:
    case SHINGLE_EBACKEND:
    case SHINGLE_EBUG:
    case SHINGLE_EBUSY: break;
    }
    return CLI_FAILED;
}

int out_status(shingle_status status)
{
    return out_error(out_code(status), "%s", shingle_error());
}

static bool is_dumb(void)
{
    const char *const term = getenv("TERM");
    return term == NULL || strcmp(term, "dumb") == 0;
}

static size_t terminal_width(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

/* Cuts TEXT to MOST letters: a line that is broken in two is not overwritten by the next. */
static void cut(char *text, size_t most)
{
    for (char *c = text; *c != '\0'; c++) {
        const bool begins = ((unsigned char)*c & 0xc0) != 0x80; /* a letter of UTF-8 */
        if (!begins) continue;
        if (most-- > 0) continue;
        *c = '\0';
        return;
    }
}

void out_progress(const char *format, ...)
{
    static int shown = -1;
    if (shown < 0) shown = isatty(STDERR_FILENO) && !is_dumb();
    if (!shown) return;
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cut(text, terminal_width() - 1);
    fprintf(stderr, "\r\033[K%s", text);
    fflush(stderr);
    progress_shown = true;
}

void out_progress_end(void)
{
    if (!progress_shown) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    progress_shown = false;
}

static int failure; /* why stdout could not be written, the first time */

/* Asked behind what prints much: later something else may have failed. */
static void keep_failure(void)
{
    if (failure == 0 && ferror(stdout)) failure = errno;
}

void out_text(const char *text)
{
    fputs(text, stdout);
    keep_failure();
}

void out_flush(void)
{
    fflush(stdout);
    keep_failure();
}

int out_finish(int code)
{
    keep_failure(); /* before anything else is done */
    out_progress_end();
    out_flush();
    if (ferror(stdout))
        return out_error(CLI_FAILED, "standard output could not be written: %s",
                         failure ? strerror(failure) : "write error");
    return code;
}

void *out_get(size_t bytes)
{
    void *const memory = malloc(bytes ? bytes : 1);
    if (memory == NULL) exit(out_error(CLI_FAILED, "no memory for %zu bytes", bytes));
    return memory;
}

char *out_copy(const char *text)
{
    const size_t bytes = strlen(text) + 1;
    return memcpy(out_get(bytes), text, bytes);
}

/* ---- Colour ---------------------------------------------------------------------------------- */

static bool has_colour(void)
{
    static int colour = -1;
    if (colour < 0) {
        const char *const no = getenv("NO_COLOR");
        colour = isatty(STDOUT_FILENO) && !is_dumb() && (no == NULL || no[0] == '\0');
    }
    return colour;
}

const char *out_on(out_tone tone)
{
    static const char *const code[] = {"", "\033[1m", "\033[32m", "\033[31m", "\033[2m"};
    return has_colour() ? code[tone] : "";
}

const char *out_off(void)
{
    return has_colour() ? "\033[0m" : "";
}

/* ---- Tables ---------------------------------------------------------------------------------- */

enum { MAX_COLUMNS = 16 };

typedef struct cell {
    char *text;
    out_tone tone;
    bool rule_before; /* of a row's first cell */
} cell;

struct out_table {
    char head[MAX_COLUMNS][24];
    bool right[MAX_COLUMNS];
    int columns;
    cell *cells; /* rows one behind the other */
    int count, room;
    bool rule;
};

out_table *out_table_make(const char *heads)
{
    out_table *const table = out_get(sizeof *table);
    memset(table, 0, sizeof *table);
    for (const char *c = heads; *c != '\0' && table->columns < MAX_COLUMNS;) {
        const int i = table->columns++;
        table->right[i] = *c++ == '>';
        size_t length = 0;
        for (; *c != '\0' && *c != ' '; c++)
            if (length + 1 < sizeof table->head[i]) table->head[i][length++] = *c == '_' ? ' ' : *c;
        while (*c == ' ') c++;
    }
    return table;
}

void out_table_add(out_table *table, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    const size_t bytes = (size_t)(length > 0 ? length : 0) + 1;
    char *const text = out_get(bytes);
    text[0] = '\0';
    va_start(args, format);
    vsnprintf(text, bytes, format, args);
    va_end(args);
    make_one_line(text);
    if (table->count == table->room) {
        table->room = table->room ? table->room * 2 : 64;
        cell *const cells = out_get((size_t)table->room * sizeof *cells);
        if (table->count > 0) memcpy(cells, table->cells, (size_t)table->count * sizeof *cells);
        free(table->cells);
        table->cells = cells;
    }
    table->cells[table->count++] = (cell){text, OUT_PLAIN, table->rule};
    table->rule = false;
}

void out_table_tone(out_table *table, out_tone tone)
{
    if (table->count > 0) table->cells[table->count - 1].tone = tone;
}

void out_table_rule(out_table *table)
{
    table->rule = true;
}

/* Prints a cell behind *PENDING spaces, and leaves in *PENDING those that the next one needs, so
 * that no line ends in spaces. */
static void print_cell(const char *text, int width, bool right, out_tone tone, int *pending)
{
    const int length = (int)strlen(text);
    const int fill = width > length ? width - length : 0;
    if (right) *pending += fill;
    if (length > 0) {
        printf("%*s%s%s%s", *pending, "", out_on(tone), text, tone == OUT_PLAIN ? "" : out_off());
        *pending = 0;
    }
    *pending += right ? 2 : fill + 2;
}

static void print_rule(const char *prefix, int width)
{
    fputs(prefix, stdout);
    for (int i = 0; i < width; i++) putchar('-');
    putchar('\n');
}

void out_table_print(const out_table *table, const char *prefix)
{
    int width[MAX_COLUMNS];
    int all = 2 * (table->columns - 1);
    for (int i = 0; i < table->columns; i++) {
        width[i] = (int)strlen(table->head[i]);
        for (int c = i; c < table->count; c += table->columns) {
            const int length = (int)strlen(table->cells[c].text);
            if (length > width[i]) width[i] = length;
        }
        all += width[i];
    }
    int pending = 0;
    fputs(prefix, stdout);
    for (int i = 0; i < table->columns; i++)
        print_cell(table->head[i], width[i], table->right[i], OUT_HEAD, &pending);
    for (int c = 0; c < table->count; c++) {
        const int i = c % table->columns;
        if (i == 0) {
            putchar('\n');
            if (table->cells[c].rule_before) print_rule(prefix, all);
            pending = (int)strlen(prefix);
        }
        print_cell(table->cells[c].text, width[i], table->right[i], table->cells[c].tone, &pending);
    }
    putchar('\n');
    keep_failure();
}

void out_table_free(out_table *table)
{
    if (table == NULL) return;
    for (int c = 0; c < table->count; c++) free(table->cells[c].text);
    free(table->cells);
    free(table);
}

void out_wrap(int indent, const char *format, ...)
{
    enum { WIDTH = 100 };
    char text[2000];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    int column = 0;
    for (const char *at = text; *at != '\0';) {
        const int length = (int)strcspn(at, " ");
        if (column > 0 && column + 1 + length > WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (column > 0) {
            putchar(' ');
            column++;
        }
        printf("%.*s", length, at);
        column += length;
        at += length + (int)strspn(at + length, " ");
    }
    putchar('\n');
    keep_failure();
}

/* ---- Numbers and JSON ------------------------------------------------------------------------ */

out_unit out_unit_for(double us)
{
    if (us >= 1e7) return (out_unit){"s", 1e6};
    if (us >= 1e4) return (out_unit){"ms", 1e3};
    return (out_unit){"us", 1.0};
}

void out_table_time(out_table *table, out_unit unit, double us)
{
    const double value = us / unit.us;
    if (!isfinite(value) || us <= 0) {
        out_table_add(table, "-");
    } else {
        out_table_add(table, "%.*f", value < 10 ? 2 : value < 1000 ? 1 : 0, value);
    }
}

void out_table_share(out_table *table, double share)
{
    if (isfinite(share)) {
        out_table_add(table, "%.0f%%", 100 * share);
    } else {
        out_table_add(table, "-");
    }
}

void out_table_factor(out_table *table, double factor)
{
    if (isfinite(factor)) {
        out_table_add(table, "%.2f", factor);
    } else {
        out_table_add(table, "-");
    }
}

json_t *out_json_real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *out_json_text(const char *text)
{
    json_t *string = json_string(text);
    if (string != NULL) return string;
    char *const copy = out_copy(text);
    for (char *c = copy; *c != '\0'; c++)
        if ((unsigned char)*c >= 0x80) *c = '?';
    string = json_string(copy);
    free(copy);
    return string;
}

void out_json(json_t *value)
{
    if (value == NULL) exit(out_error(CLI_FAILED, "no memory for the JSON text"));
    /* 9 figures: more than any of the numbers has, and short to read. */
    json_dumpf(value, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    keep_failure();
    json_decref(value);
}
