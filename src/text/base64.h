/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 with the usual alphabet and with padding (RFC 4648, section 4). */
#ifndef TEXT_BASE64_H
#define TEXT_BASE64_H
#include "base/buf.h"

/* Both functions append everything or nothing. ERR_FULL at the buffer's limit, ERR_NOMEM. */
enum err base64_encode(struct str bytes, struct buf *out);
/* Skips line breaks, spaces and tabs, because people wrap long values. The other characters must be
 * complete groups of the alphabet, with padding only at the end and unused bits of zero; otherwise
 * ERR_PARSE. Two texts that decode to the same bytes thus differ only in blanks. */
enum err base64_decode(struct str text, struct buf *out);
#endif
