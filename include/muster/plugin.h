/* SPDX-License-Identifier: Apache-2.0 */
/* The complete C interface of a muster worker plugin that is a shared object.
 *
 * The manifest names the file and one symbol, a function without arguments that returns the plugin
 * (muster_plugin_factory). The worker calls this function once at its start and never unloads the
 * object. All calls come from the same worker thread, one at a time.
 *
 *     [entry.cdylib]
 *     path = "libsquare.so"
 *     symbol = "square_plugin"
 *
 * A worker that processes records calls the method "map" with one record, which is a line of input
 * without its line end. The answer "KEY" or "KEY NUMBER" is added to the partition's totals. An
 * empty answer skips the record. When a partition is resumed from its checkpoint, this worker or
 * another may map the same record again. So "map" must return the same answer each time and have no
 * side effects. */
#ifndef MUSTER_PLUGIN_H
#define MUSTER_PLUGIN_H
#include <stddef.h>
#include <stdint.h>

#define MUSTER_PLUGIN_ABI 1

/* Bytes that the plugin owns. The worker copies the bytes and returns them with free_buf. */
struct muster_plugin_buf {
    uint8_t *ptr;
    size_t len, cap;
};
struct muster_plugin {
    uint32_t abi_version; /* MUSTER_PLUGIN_ABI */
    const char *name;
    /* Handles a call. Returns 0 on success and sets *out to the answer; an empty answer is all
     * zeros. Any other value means failure: the worker reports the number and ignores *out. Method
     * and payload belong to the caller and are not NUL-terminated. */
    int32_t (*call)(const uint8_t *method, size_t method_len, const uint8_t *payload,
                    size_t payload_len, struct muster_plugin_buf *out);
    void (*free_buf)(struct muster_plugin_buf buf);
};
typedef const struct muster_plugin *muster_plugin_factory(void);
#endif
