/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of header names and values, shared by client and server. Pure. */
#ifndef RPC_HEADERS_H
#define RPC_HEADERS_H
#include "base/str.h"

/* true if the name is lower case, and not reserved by gRPC */
bool header_name_is_free(struct str name);
bool header_value_is_printable(struct str value);
bool header_is_hex(struct str s); /* lower-case digits only, as in trace ids */
#endif
