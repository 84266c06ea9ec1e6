/* SPDX-License-Identifier: Apache-2.0 */
/* Percent-encoding for URLs. */
#ifndef TEXT_PERCENT_H
#define TEXT_PERCENT_H
#include "base/buf.h"

/* Appends `text`. Bytes other than letters, digits, - . _ ~ and the bytes of `also` become %XX.
 * After an error, a part of the text may have been appended. */
enum err percent_encode(struct str text, struct str also, struct buf *into);
#endif
