/* SPDX-License-Identifier: Apache-2.0 */
/* Percent-encoding for URLs. */
#ifndef TEXT_PERCENT_H
#define TEXT_PERCENT_H
#include "base/buf.h"

/* Appends `text`. Bytes become %XX, except letters, digits, - . _ ~ and the bytes of `also`. After
 * an error, a part may have been appended. */
enum err percent_encode(struct str text, struct str also, struct buf *into);
#endif
