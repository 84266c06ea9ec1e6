/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign text made fit to be shown: no byte of it can steer a terminal or pass for a line of ours.
 *
 * Everything that came from outside (values, keys, flags, file names) goes through here before it
 * stands in a message. Control characters (C0, DEL, C1), line and paragraph separators and those
 * that turn the direction of writing are shown as \n, \t, \x1B or \u009B; bytes that are no UTF-8
 * as \xFF. The surprising rule: a backslash stays as it is, so that paths stay readable; this is
 * for eyes, and not to be read back. */
#ifndef CONF_PRINTABLE_H
#define CONF_PRINTABLE_H
#include "base/buf.h"

/* The character at the front of `text`, which is not empty: its length in bytes and its number; a
 * byte that begins no character is 1 long and numbered PRINTABLE_NONE. */
enum { PRINTABLE_NONE = -1 };
size_t printable_next(struct str text, int32_t *ret_code);
/* Whether it may stand in a line for people. False for PRINTABLE_NONE. */
bool printable_code(int32_t code);
/* ERR_FULL, ERR_NOMEM. */
enum err printable_append(struct str text, struct buf *into);
#endif
