/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether a template keeps its values apart from its shell code.
 *
 * A value in single quotes is one word only where the shell reads a word: not inside other
 * quotes, a here-document or an expansion. The scanner reads the template as POSIX sh and bash
 * would. It knows a subset of their grammar; from the first construct on that it cannot judge,
 * or that sh and bash read differently, it refuses every quoted word. Pure. */
#ifndef OPERATOR_TEMPLATE_SHELL_H
#define OPERATOR_TEMPLATE_SHELL_H
#include "base/str.h"

/* Bytes that stand for placeholders in the text that is scanned. */
enum template_mark {
    TEMPLATE_MARK_INERT = 1, /* no value of it can change how the shell reads the text */
    TEMPLATE_MARK_PLAIN = 2, /* label characters, chosen by a request */
    TEMPLATE_MARK_SHELL = 3, /* one word in single quotes */
    TEMPLATE_MARK_OTHER = 4, /* a text of the author's that the shell may take for anything */
};
enum template_verdict {
    TEMPLATE_SOUND,
    TEMPLATE_INSIDE,   /* a quoted word is inside `what`, which begins on line `since` */
    TEMPLATE_UNCLEAR,  /* a quoted word follows `what` on line `since`, which cannot be judged */
    TEMPLATE_ENDS_HERE /* a plain value could end the here-document of line `since` */
};
struct template_finding {
    enum template_verdict verdict;
    const char *what;
    size_t mark; /* the placeholder: how many marks precede it */
    size_t line, since;
};
/* `text` has no other bytes from 1 to 4. */
struct template_finding template_shell_scan(struct str text);
#endif
