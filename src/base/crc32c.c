/* SPDX-License-Identifier: Apache-2.0 */
/* Computes CRC-32C with tables, or with the processor's CRC instruction. No I/O, no state. */
#include "base/crc32c.h"

#include "base/bytes.h"

/* The polynomial is 0x1EDC6F41 with reflected bits. The register is inverted before and after, so
 * that leading zeros change the checksum. */

/* TABLE_ROW k has, for each single bit of a byte, the register after this byte and k zero bytes.
 * The checksum is linear: a byte's entry is the xor of the entries of its bits. */
#define TABLE_ROWS(ROW)                                                                            \
    ROW(0xF26B8303u, 0xE13B70F7u, 0xC79A971Fu, 0x8AD958CFu, 0x105EC76Fu, 0x20BD8EDEu, 0x417B1DBCu, \
        0x82F63B78u)                                                                               \
    ROW(0x13A29877u, 0x274530EEu, 0x4E8A61DCu, 0x9D14C3B8u, 0x3FC5F181u, 0x7F8BE302u, 0xFF17C604u, \
        0xFBC3FAF9u)                                                                               \
    ROW(0xA541927Eu, 0x4F6F520Du, 0x9EDEA41Au, 0x38513EC5u, 0x70A27D8Au, 0xE144FB14u, 0xC76580D9u, \
        0x8B277743u)                                                                               \
    ROW(0xDD45AAB8u, 0xBF672381u, 0x7B2231F3u, 0xF64463E6u, 0xE964B13Du, 0xD725148Bu, 0xABA65FE7u, \
        0x52A0C93Fu)                                                                               \
    ROW(0x38116FACu, 0x7022DF58u, 0xE045BEB0u, 0xC5670B91u, 0x8F2261D3u, 0x1BA8B557u, 0x37516AAEu, \
        0x6EA2D55Cu)                                                                               \
    ROW(0xEF306B19u, 0xDB8CA0C3u, 0xB2F53777u, 0x6006181Fu, 0xC00C303Eu, 0x85F4168Du, 0x0E045BEBu, \
        0x1C08B7D6u)                                                                               \
    ROW(0x68032CC8u, 0xD0065990u, 0xA5E0C5D1u, 0x4E2DFD53u, 0x9C5BFAA6u, 0x3D5B83BDu, 0x7AB7077Au, \
        0xF56E0EF4u)                                                                               \
    ROW(0x493C7D27u, 0x9278FA4Eu, 0x211D826Du, 0x423B04DAu, 0x847609B4u, 0x0D006599u, 0x1A00CB32u, \
        0x34019664u)

#define ENTRY(n, b0, b1, b2, b3, b4, b5, b6, b7)                                                   \
    (((n)&1 ? (b0) : 0) ^ ((n)&2 ? (b1) : 0) ^ ((n)&4 ? (b2) : 0) ^ ((n)&8 ? (b3) : 0) ^           \
     ((n)&16 ? (b4) : 0) ^ ((n)&32 ? (b5) : 0) ^ ((n)&64 ? (b6) : 0) ^ ((n)&128 ? (b7) : 0))
#define ENTRIES_4(n, ...)                                                                          \
    ENTRY(n, __VA_ARGS__), ENTRY((n) + 1, __VA_ARGS__), ENTRY((n) + 2, __VA_ARGS__),               \
        ENTRY((n) + 3, __VA_ARGS__)
#define ENTRIES_16(n, ...)                                                                         \
    ENTRIES_4(n, __VA_ARGS__), ENTRIES_4((n) + 4, __VA_ARGS__), ENTRIES_4((n) + 8, __VA_ARGS__),   \
        ENTRIES_4((n) + 12, __VA_ARGS__)
#define ENTRIES_64(n, ...)                                                                         \
    ENTRIES_16(n, __VA_ARGS__), ENTRIES_16((n) + 16, __VA_ARGS__),                                 \
        ENTRIES_16((n) + 32, __VA_ARGS__), ENTRIES_16((n) + 48, __VA_ARGS__)
#define TABLE_ROW(...)                                                                             \
    {ENTRIES_64(0, __VA_ARGS__), ENTRIES_64(64, __VA_ARGS__), ENTRIES_64(128, __VA_ARGS__),        \
     ENTRIES_64(192, __VA_ARGS__)},

static const uint32_t crc_table[8][256] = {TABLE_ROWS(TABLE_ROW)};

/* Eight bytes per step: each byte is looked up in the row for the number of bytes behind it. */
uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;

    crc = ~crc;
    for (; len >= 8; at += 8, len -= 8) {
        uint64_t word = load_le64(at) ^ crc;
        crc = crc_table[7][word & 255] ^ crc_table[6][word >> 8 & 255] ^
              crc_table[5][word >> 16 & 255] ^ crc_table[4][word >> 24 & 255] ^
              crc_table[3][word >> 32 & 255] ^ crc_table[2][word >> 40 & 255] ^
              crc_table[1][word >> 48 & 255] ^ crc_table[0][word >> 56];
    }
    for (; len > 0; at++, len--) crc = crc >> 8 ^ crc_table[0][(crc ^ *at) & 255];
    return ~crc;
}

#if defined(__x86_64__)
#include <immintrin.h>

/* The crc instruction accepts a word every cycle, but its result takes three cycles. Therefore
 * three runs of LANE bytes are processed in parallel and joined. A larger LANE is faster
 * for large blocks, but slower for pages. */
#define LANE ((size_t)256)
/* x^(8 * n - 33) modulo the CRC polynomial, for n = 1 and 2 lanes in bytes; see shift(). */
static const uint32_t shift_by_1_lane = 0xB9E02B86u, shift_by_2_lanes = 0xDD7E3B0Cu;

/* Returns the register after a number of zero bytes. `power` is x^(8 * n - 33), not x^(8 * n): the
 * carry-less product adds a factor x, and the crc instruction multiplies by x^32. */
__attribute__((target("sse4.2,pclmul"))) static uint64_t shift(uint64_t crc, uint32_t power)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc),
                                           _mm_cvtsi64_si128((long long)power), 0);
    return _mm_crc32_u64(0, (unsigned long long)_mm_cvtsi128_si64(product));
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t crc_sse42(uint32_t start,
                                                                   const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    uint64_t crc = (uint32_t)~start;

    for (; len >= 3 * LANE; at += 3 * LANE, len -= 3 * LANE) {
        uint64_t second = 0, third = 0;
        for (size_t i = 0; i < LANE; i += 8) {
            crc = _mm_crc32_u64(crc, load_le64(at + i));
            second = _mm_crc32_u64(second, load_le64(at + LANE + i));
            third = _mm_crc32_u64(third, load_le64(at + 2 * LANE + i));
        }
        crc = shift(crc, shift_by_2_lanes) ^ shift(second, shift_by_1_lane) ^ third;
    }
    for (; len >= 8; at += 8, len -= 8) crc = _mm_crc32_u64(crc, load_le64(at));
    for (; len > 0; at++, len--) crc = _mm_crc32_u8((uint32_t)crc, *at);
    return ~(uint32_t)crc;
}

/* The compiler's runtime has read the processor's features before any thread started. */
static bool has_sse42(void)
{
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t len)
{
    return has_sse42() ? crc_sse42(crc, bytes, len) : crc32c_portable(crc, bytes, len);
}

const char *crc32c_kind(void)
{
    return has_sse42() ? "sse4.2" : "portable";
}

#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>

uint32_t crc32c(uint32_t crc, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;

    crc = ~crc;
    for (; len >= 8; at += 8, len -= 8) crc = __crc32cd(crc, load_le64(at));
    for (; len > 0; at++, len--) crc = __crc32cb(crc, *at);
    return ~crc;
}

const char *crc32c_kind(void)
{
    return "armv8";
}

#else
uint32_t crc32c(uint32_t crc, const void *bytes, size_t len)
{
    return crc32c_portable(crc, bytes, len);
}

const char *crc32c_kind(void)
{
    return "portable";
}
#endif
