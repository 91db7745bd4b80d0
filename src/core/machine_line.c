/* machine_line.c -- see machine_line.h.  Not strtod, which listens to the locale. */
#include "core/machine_line.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_WHOLE = 9, MOST_BEHIND = 6 }; /* digits; all of them fit a double */

shingle_status sg_machine_fail_at(const sg_machine_reader *r, const char *at, const char *format,
                                  ...)
{
    char what[480];
    va_list args;
    va_start(args, format);
    sg_format(what, sizeof what, format, args);
    va_end(args);
    return sg_fail(SHINGLE_EINVAL, "%s:%d:%d: %s", r->file, r->line, (int)(at - r->line_start) + 1,
                   what);
}

bool sg_machine_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

void sg_machine_skip_blanks(sg_machine_reader *r)
{
    while (sg_machine_is_blank(*r->at)) r->at++;
}

bool sg_machine_at_end(const sg_machine_reader *r)
{
    return *r->at == '\0' || *r->at == '\n' || *r->at == '#';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

void sg_machine_print_number(double value, sg_text *t)
{
    const int64_t micro = (int64_t)(value * 1e6 + 0.5);
    sg_text_add(t, "%lld", (long long)(micro / 1000000));
    int64_t fraction = micro % 1000000;
    if (fraction == 0) return;
    int digits = MOST_BEHIND;
    for (; fraction % 10 == 0; fraction /= 10) digits--;
    sg_text_add(t, ".%0*lld", digits, (long long)fraction);
}

/* What stands at START, up to a blank, is not in RANGE. */
static shingle_status fail_number(const sg_machine_reader *r, const char *start,
                                  const sg_machine_range *of)
{
    char accepted[80] = "";
    sg_text text = {accepted, sizeof accepted, 0};
    sg_text_add(&text, "a %snumber from ", of->whole ? "whole " : "");
    sg_machine_print_number(of->least, &text);
    sg_text_add(&text, " to ");
    sg_machine_print_number(of->most, &text);
    const int length = (int)sg_min((int64_t)strcspn(start, " \t\r\n#"), 40);
    if (length == 0)
        return sg_machine_fail_at(r, start, "%s is missing; %s is accepted", of->name, accepted);
    return sg_machine_fail_at(r, start, "%s is \"%.*s\"; %s is accepted", of->name, length, start,
                              accepted);
}

/* The power of ten behind a number; false: letters that are none. */
static bool take_power(sg_machine_reader *r, int *power_out)
{
    *power_out = 0;
    if (*r->at != 'e' && *r->at != 'E') return true;
    r->at++;
    const bool negative = *r->at == '-';
    if (*r->at == '-' || *r->at == '+') r->at++;
    if (!is_digit(*r->at)) return false;
    int power = 0;
    for (; is_digit(*r->at); r->at++)
        if (power < 100) power = power * 10 + (*r->at - '0');
    *power_out = negative ? -power : power;
    return true;
}

/* VALUE times ten to the POWER in units of the last digit behind the point that is accepted; -1: in
 * no whole number of them, or too many. */
static int64_t in_units(int64_t value, int power)
{
    static const int64_t most = INT64_C(1000000000000000); /* MOST_WHOLE and MOST_BEHIND digits */
    power += MOST_BEHIND;
    if (value == 0) return 0;
    for (; power < 0 && value % 10 == 0; power++) value /= 10;
    for (; power > 0 && value < most; power--) value *= 10;
    return power == 0 && value < most ? value : -1;
}

shingle_status sg_machine_take_number(sg_machine_reader *r, const sg_machine_range *of, char end,
                                      double *value_out)
{
    const char *const start = r->at;
    int64_t value = 0;
    int digits = 0;
    int behind = 0;
    int power = 0;
    for (; is_digit(*r->at); r->at++, digits++)
        if (digits < MOST_WHOLE) value = value * 10 + (*r->at - '0');
    if (digits == 0 || digits > MOST_WHOLE) return fail_number(r, start, of);
    if (!of->whole && *r->at == '.') {
        for (r->at++; is_digit(*r->at); r->at++, behind++) {
            if (behind == MOST_BEHIND)
                return sg_machine_fail_at(r, r->at, "at most 6 digits behind the point expected");
            value = value * 10 + (*r->at - '0');
        }
        if (behind == 0) return fail_number(r, start, of);
    }
    if (!of->whole && !take_power(r, &power)) return fail_number(r, start, of);
    if (!sg_machine_at_end(r) && !sg_machine_is_blank(*r->at) && *r->at != end)
        return fail_number(r, start, of);
    const int64_t units = in_units(value, power - behind);
    if (units < 0 && power < 0)
        return sg_machine_fail_at(r, start,
                                  "%s is \"%.*s\"; at most 6 digits behind the point count",
                                  of->name, (int)sg_min(r->at - start, 40), start);
    *value_out = (double)units / 1e6;
    if (units < 0 || *value_out < of->least || *value_out > of->most)
        return fail_number(r, start, of);
    return SHINGLE_OK;
}
