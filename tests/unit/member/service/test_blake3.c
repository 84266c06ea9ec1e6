/* SPDX-License-Identifier: Apache-2.0 */
/* member/blake3.h against the published vectors: input byte i is i mod 251. */
#include <stdio.h>
#include <stdlib.h>

#include "lib/test.h"
#include "member/blake3.h"

static void hex_of(struct str input, char text[2 * BLAKE3_BYTES + 1])
{
    uint8_t digest[BLAKE3_BYTES];

    blake3(input, digest);
    for (size_t i = 0; i < BLAKE3_BYTES; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

TEST(the_published_vectors)
{
    static const struct {
        size_t len;
        const char *hex;
    } cases[] = {
        {0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"},
        {1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"},
        {1023, "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11"},
        {1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"},
        {1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"},
        {2048, "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a"},
        {2049, "5f4d72f40d7a5f82b15ca2b2e44b1de3c2ef86c426c95c1af0b6879522563030"},
        {3072, "b98cb0ff3623be03326b373de6b9095218513e64f1ee2edd2525c7ad1e5cffd2"},
        {31744, "62b6960e1a44bcc1eb1a611a8d6235b6b4b78f32e7abc4fb4c6cdcce94895c47"},
        {102400, "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085"},
    };
    char text[2 * BLAKE3_BYTES + 1];

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char *input = malloc(cases[i].len + 1);

        for (size_t k = 0; k < cases[i].len; k++) input[k] = (char)(k % 251);
        hex_of(str_of(input, cases[i].len), text);
        CHECK_TEXT("digest", text, cases[i].hex);
        free(input);
    }
    hex_of(STR("abc"), text);
    CHECK_TEXT("abc", text, "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85");
}
