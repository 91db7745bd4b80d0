/* spell.c -- see spell.h. */
#include "core/spell.h"

#include <string.h>

/* One row of the usual table at a time. */
int sg_spell_distance(const char *a, size_t length, const char *b)
{
    int row[SG_SPELL_LETTERS + 1];
    const int columns = (int)strlen(b);
    SG_ASSERT(columns <= SG_SPELL_LETTERS);
    for (int j = 0; j <= columns; j++) row[j] = j;
    for (int i = 1; i <= (int)length; i++) {
        int corner = row[0];
        row[0] = i;
        for (int j = 1; j <= columns; j++) {
            const int exchange = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            row[j] = (int)sg_min(exchange, 1 + sg_min(row[j], row[j - 1]));
        }
    }
    return row[columns];
}
