/* spell.h -- how far apart two words are, for errors that say which one was meant. */
#ifndef SG_SPELL_H
#define SG_SPELL_H

#include "core/base.h"

enum { SG_SPELL_LETTERS = 48 }; /* a word has at most */

/* Letters to insert, drop or exchange to make the LENGTH letters of A of B. */
int sg_spell_distance(const char *a, size_t length, const char *b);

#endif
