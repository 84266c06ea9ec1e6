/* SPDX-License-Identifier: Apache-2.0 */
/* BLAKE3 with 256 bits and without a key. The hash of its content identifies a work item. */
#ifndef MEMBER_BLAKE3_H
#define MEMBER_BLAKE3_H
#include "base/str.h"

enum { BLAKE3_BYTES = 32 };
void blake3(struct str input, uint8_t ret_digest[BLAKE3_BYTES]);
#endif
