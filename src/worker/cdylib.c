/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a plugin's shared object, checks its interface, and calls its functions. Loading runs on
 * the event loop's thread, calls run on the processing thread. */
#include "worker/cdylib.h"

#include <dlfcn.h>
#include <muster/plugin.h>

enum err cdylib_load(const char *path, const char *symbol, const struct muster_plugin **ret_plugin,
                     struct note *note)
{
    const struct muster_plugin *plugin;
    muster_plugin_factory *factory;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *found;

    if (!library) {
        const char *why = dlerror();
        return note_fail(note, ERR_NOT_FOUND, "%s", why ? why : "cannot be loaded");
    }
    found = dlsym(library, symbol);
    if (!found) return note_fail(note, ERR_NOT_FOUND, "%s has no symbol '%s'", path, symbol);
    memcpy(&factory, &found, sizeof factory); /* ISO C cannot cast void * to a function */
    plugin = factory();
    if (!plugin) return note_fail(note, ERR_INVALID, "%s: '%s' returned no plugin", path, symbol);
    if (plugin->abi_version != MUSTER_PLUGIN_ABI)
        return note_fail(note, ERR_VERSION, "%s: the plugin has ABI version %u, this worker has %u",
                         path, (unsigned)plugin->abi_version, MUSTER_PLUGIN_ABI);
    if (!plugin->call || !plugin->free_buf)
        return note_fail(note, ERR_INVALID, "%s: the plugin lacks call or free_buf", path);
    *ret_plugin = plugin;
    return ERR_OK;
}

enum err cdylib_call(const struct muster_plugin *plugin, struct str method, struct str payload,
                     struct buf *answer, struct note *note)
{
    struct muster_plugin_buf out = {NULL, 0, 0};
    int32_t code = plugin->call((const uint8_t *)method.at, method.len, (const uint8_t *)payload.at,
                                payload.len, &out);
    enum err err;

    if (code)
        return note_fail(note, ERR_INVALID, "plugin %s: method '%.*s' failed with rc %d",
                         plugin->name ? plugin->name : "", STR_ARG(method), code);
    err = out.len ? buf_append(answer, str_of(out.ptr, out.len)) : ERR_OK;
    if (out.ptr) plugin->free_buf(out);
    return err;
}
