/* SPDX-License-Identifier: Apache-2.0 */
/* Text for a URL. */
#ifndef TEXT_PERCENT_H
#define TEXT_PERCENT_H
#include "base/buf.h"

/* Appends; %XX but for letters, digits, - . _ ~ and what `also` has. An error may leave a part. */
enum err percent_encode(struct str text, struct str also, struct buf *into);
#endif
