/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign text made fit to be shown: no byte of it can steer a terminal or pass for a line of ours.
 *
 * Everything that came from outside (values, keys, flags, file names) goes through here before it
 * is put into a message. Control characters (C0, DEL, C1), line and paragraph separators and those
 * that turn the direction of writing are shown as \n, \t, \x1B or \u009B; bytes that are no UTF-8
 * as \xFF. The surprising rule: a backslash stays as it is, so that paths stay readable; this is
 * for eyes, and not to be read back. */
#ifndef CONF_PRINTABLE_H
#define CONF_PRINTABLE_H
#include "base/buf.h"

/* ERR_FULL, ERR_NOMEM. */
enum err printable_append(struct str text, struct buf *into);
#endif
