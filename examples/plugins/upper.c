/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's plugin as a shared object: maps a record "word number" to "WORD number".
 *
 *     cc -shared -fPIC -I../../include upper.c -o libupper.so
 *     muster worker run --config ../worker.toml --plugin upper.toml
 *
 * Also answers "echo", which gives back what it got; every other method is refused. */
#include <ctype.h>
#include <muster/plugin.h>
#include <stdlib.h>
#include <string.h>

static int is(const char *name, const uint8_t *method, size_t len)
{
    return strlen(name) == len && memcmp(name, method, len) == 0;
}

static int32_t call(const uint8_t *method, size_t method_len, const uint8_t *payload,
                    size_t payload_len, struct muster_plugin_buf *out)
{
    int map = is("map", method, method_len);

    if (!map && !is("echo", method, method_len)) return 1;
    if (payload_len == 0) return 0;
    out->ptr = malloc(payload_len);
    if (!out->ptr) return 2;
    out->len = out->cap = payload_len;
    for (size_t i = 0; i < payload_len; i++)
        out->ptr[i] = map ? (uint8_t)toupper(payload[i]) : payload[i];
    return 0;
}

static void free_buf(struct muster_plugin_buf buf)
{
    free(buf.ptr);
}

const struct muster_plugin *upper_plugin(void);
const struct muster_plugin *upper_plugin(void)
{
    static const struct muster_plugin plugin = {MUSTER_PLUGIN_ABI, "upper", call, free_buf};
    return &plugin;
}
