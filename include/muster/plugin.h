/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin of a muster worker as a shared object: the whole of its C interface.
 *
 * The manifest names the file and one symbol, a function without arguments that returns the
 * plugin (muster_plugin_factory). It is called once, when the worker starts; the object is never
 * unloaded. Calls come one at a time, from a thread of the worker's that is always the same.
 *
 *     [entry.cdylib]
 *     path = "libsquare.so"
 *     symbol = "square_plugin"
 *
 * A worker that processes records calls the method "map" with one record, a line of input without
 * its end. The answer is "KEY" or "KEY NUMBER", which is added to the partition's totals, or
 * nothing at all, and the record is passed over. The same record may be mapped again, by this
 * worker or another, when a partition is resumed from its checkpoint: answer the same, and change
 * nothing elsewhere. */
#ifndef MUSTER_PLUGIN_H
#define MUSTER_PLUGIN_H
#include <stddef.h>
#include <stdint.h>

#define MUSTER_PLUGIN_ABI 1

/* Bytes that belong to the plugin: the worker copies them and gives them back by free_buf. */
struct muster_plugin_buf {
    uint8_t *ptr;
    size_t len, cap;
};
struct muster_plugin {
    uint32_t abi_version; /* MUSTER_PLUGIN_ABI */
    const char *name;
    /* 0: done, and *out holds the answer, which may be empty (all 0). Anything else: failed, with
     * that number in the worker's message; *out is not looked at. Method and payload are not
     * NUL-terminated and belong to the caller. */
    int32_t (*call)(const uint8_t *method, size_t method_len, const uint8_t *payload,
                    size_t payload_len, struct muster_plugin_buf *out);
    void (*free_buf)(struct muster_plugin_buf buf);
};
typedef const struct muster_plugin *muster_plugin_factory(void);
#endif
