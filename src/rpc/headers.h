/* SPDX-License-Identifier: Apache-2.0 */
/* What client and server both ask of names and values in headers. Pure. */
#ifndef RPC_HEADERS_H
#define RPC_HEADERS_H
#include "base/str.h"

/* Lower case, and none of the names that gRPC keeps for itself: the user's to choose. */
bool header_name_is_free(struct str name);
bool header_value_is_printable(struct str value);
bool header_is_hex(struct str s); /* digits in lower case alone, as trace ids are */
#endif
