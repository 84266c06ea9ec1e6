/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C (Castagnoli), the checksum of everything we write to disk. */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H
#include "base/base.h"

/* Continues from `crc`, 0 at the start: crc32c(crc32c(0, a), b) == crc32c(0, a then b). Uses the
 * processor's instruction where there is one: asked at run time on x86-64, and on ARM settled when
 * it is compiled (asking there takes a system call's answer, and base reads nothing). */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t len);
/* The same by table, on any machine; the oracle the fast one is tested against. */
uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t len);
const char *crc32c_kind(void); /* "sse4.2", "armv8" or "portable" */
#endif
