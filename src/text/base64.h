/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 with the common alphabet and padding (RFC 4648, section 4). */
#ifndef TEXT_BASE64_H
#define TEXT_BASE64_H
#include "base/buf.h"

/* Both append, all or nothing: ERR_FULL at the buffer's ceiling, ERR_NOMEM. */
enum err base64_encode(struct str bytes, struct buf *out);
/* ERR_PARSE for anything but whole groups of the alphabet, padding at the end alone and its unused
 * bits zero, so that two texts never mean the same bytes but for blanks: line breaks, spaces and
 * tabs are skipped, because people wrap long values. */
enum err base64_decode(struct str text, struct buf *out);
#endif
