/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 with the usual alphabet and with padding (RFC 4648, section 4). */
#ifndef TEXT_BASE64_H
#define TEXT_BASE64_H
#include "base/buf.h"

/* Both functions append everything or nothing. ERR_FULL at the buffer's limit, ERR_NOMEM. */
enum err base64_encode(struct str bytes, struct buf *out);
/* Skips line breaks, spaces and tabs. ERR_PARSE for other characters, missing padding, and unused
 * bits that are not zero. */
enum err base64_decode(struct str text, struct buf *out);
#endif
