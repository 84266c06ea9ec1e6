/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOG_ENTRY_H
#define LOG_ENTRY_H
#include "base/str.h"

/* The values equal libraft's, and are used on disk and in frames. */
enum entry_kind {
    ENTRY_COMMAND = 1, /* an envelope (log/envelope.h) */
    ENTRY_BARRIER = 2, /* written by a new leader; no bytes */
    ENTRY_CHANGE = 3,
};
struct entry {
    uint64_t index, term;
    enum entry_kind kind;
    struct str bytes;
};
enum {
    ENTRY_BYTES_MAX = (4 << 20) + 4096, /* a command with its envelope */
};
#endif
