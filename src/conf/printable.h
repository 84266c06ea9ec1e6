/* SPDX-License-Identifier: Apache-2.0 */
/* Escapes text from outside for display, so that it cannot control a terminal or imitate a line of
 * muster's output.
 *
 * Control characters (C0, DEL, C1), line and paragraph separators, and characters that change the
 * writing direction become \n, \t, \x1B or \u009B. Bytes that are not UTF-8 become \xFF. A
 * backslash is not escaped, so that paths stay readable. The result cannot be decoded. */
#ifndef CONF_PRINTABLE_H
#define CONF_PRINTABLE_H
#include "base/buf.h"

/* ERR_FULL, ERR_NOMEM. */
enum err printable_append(struct str text, struct buf *into);
#endif
