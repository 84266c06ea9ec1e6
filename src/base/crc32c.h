/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C (Castagnoli), the checksum of all data that we write to disk. */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H
#include "base/base.h"

/* Continues from `crc`, which is 0 at the start: crc32c(crc32c(0, a), b) == crc32c(0, a then b).
 * Uses the CPU's CRC instruction. On x86-64 a test at run time decides, on ARM the compiler's
 * options. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t len);
/* Computes the same checksum with tables only. Tests compare both functions. */
uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t len);
const char *crc32c_kind(void); /* "sse4.2", "armv8" or "portable" */
#endif
