/* SPDX-License-Identifier: Apache-2.0 */
/* BLAKE3, written from the specification. Chunks of 1,024 bytes are hashed block by block. Their
 * values are joined into a binary tree, in which a left subtree has a power of two of chunks. */
#include "member/blake3.h"

#include "base/bytes.h"

enum {
    BLOCK = 64,
    CHUNK = 1024,
    ROUNDS = 7,
    WORDS = 8,
    DEPTH_MAX = 54, /* of a tree over 2^64 bytes */
    FLAG_CHUNK_START = 1,
    FLAG_CHUNK_END = 2,
    FLAG_PARENT = 4,
    FLAG_ROOT = 8,
};
static const uint32_t start[WORDS] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

static uint32_t turn(uint32_t word, unsigned by)
{
    return word >> by | word << (32 - by);
}

static void blake3_mix(uint32_t s[16], unsigned a, unsigned b, unsigned c, unsigned d, uint32_t x,
                       uint32_t y)
{
    s[a] += s[b] + x;
    s[d] = turn(s[d] ^ s[a], 16);
    s[c] += s[d];
    s[b] = turn(s[b] ^ s[c], 12);
    s[a] += s[b] + y;
    s[d] = turn(s[d] ^ s[a], 8);
    s[c] += s[d];
    s[b] = turn(s[b] ^ s[c], 7);
}

static void compress(const uint32_t chain[WORDS], const uint32_t block[16], uint64_t counter,
                     uint32_t len, uint32_t flags, uint32_t ret_chain[WORDS])
{
    static const uint8_t order[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};
    uint32_t s[16], m[16], next[16];

    memcpy(s, chain, WORDS * sizeof *s);
    memcpy(s + WORDS, start, 4 * sizeof *s);
    s[12] = (uint32_t)counter;
    s[13] = (uint32_t)(counter >> 32);
    s[14] = len;
    s[15] = flags;
    memcpy(m, block, sizeof m);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < 4; i++) /* mix the columns */
            blake3_mix(s, i, 4 + i, 8 + i, 12 + i, m[2 * i], m[2 * i + 1]);
        for (unsigned i = 0; i < 4; i++) /* mix the diagonals */
            blake3_mix(s, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, m[8 + 2 * i],
                       m[9 + 2 * i]);
        for (unsigned i = 0; i < 16; i++) next[i] = m[order[i]];
        memcpy(m, next, sizeof m);
    }
    for (unsigned i = 0; i < WORDS; i++) ret_chain[i] = s[i] ^ s[i + WORDS];
}

static void read_block(struct str bytes, uint32_t block[16])
{
    char padded[BLOCK] = {0};

    if (bytes.len) memcpy(padded, bytes.at, bytes.len);
    for (size_t i = 0; i < 16; i++) block[i] = load_le32(padded + 4 * i);
}

static void chunk_chain(struct str bytes, uint64_t number, uint32_t root, uint32_t chain[WORDS])
{
    uint32_t block[16], flags = FLAG_CHUNK_START;

    memcpy(chain, start, sizeof start);
    do {
        size_t len = min_size(bytes.len, BLOCK);

        if (len == bytes.len) flags |= FLAG_CHUNK_END | root;
        read_block(str_of(bytes.at, len), block);
        compress(chain, block, number, (uint32_t)len, flags, chain);
        flags = 0;
        bytes = str_tail(bytes, len);
    } while (bytes.len);
}

static void join(const uint32_t left[WORDS], const uint32_t right[WORDS], uint32_t root,
                 uint32_t chain[WORDS])
{
    uint32_t block[16];

    memcpy(block, left, WORDS * sizeof *block);
    memcpy(block + WORDS, right, WORDS * sizeof *block);
    compress(start, block, 0, BLOCK, FLAG_PARENT | root, chain);
}

void blake3(struct str input, uint8_t ret_digest[BLAKE3_BYTES])
{
    uint32_t stack[DEPTH_MAX][WORDS], chain[WORDS];
    size_t depth = 0;
    uint64_t chunks = 0;

    while (input.len > CHUNK) {
        chunk_chain(str_of(input.at, CHUNK), chunks, 0, chain);
        input = str_tail(input, CHUNK);
        /* The chunk count has one trailing zero bit for each subtree that is now complete. */
        for (uint64_t whole = ++chunks; !(whole & 1); whole >>= 1)
            join(stack[--depth], chain, 0, chain);
        memcpy(stack[depth++], chain, sizeof chain);
    }
    chunk_chain(input, chunks, depth ? 0 : FLAG_ROOT, chain);
    while (depth) {
        depth--;
        join(stack[depth], chain, depth ? 0 : FLAG_ROOT, chain);
    }
    for (size_t i = 0; i < WORDS; i++) store_le32((char *)ret_digest + 4 * i, chain[i]);
}
