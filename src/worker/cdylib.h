/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin in a shared object (include/muster/plugin.h), loaded once and never unloaded. */
#ifndef WORKER_CDYLIB_H
#define WORKER_CDYLIB_H
#include "base/buf.h"
#include "base/note.h"

struct muster_plugin;
/* Loads a plugin. All errors have a note.
 *   ERR_NOT_FOUND   no such file or symbol
 *   ERR_VERSION     another ABI version
 *   ERR_INVALID     the factory returned no plugin, or an incomplete one */
enum err cdylib_load(const char *path, const char *symbol, const struct muster_plugin **ret_plugin,
                     struct note *note);
/* Calls the plugin on any thread, one call at a time, and appends its answer. ERR_INVALID: the
 * plugin failed, and the note has its error number. ERR_FULL, ERR_NOMEM. */
enum err cdylib_call(const struct muster_plugin *plugin, struct str method, struct str payload,
                     struct buf *answer, struct note *note);
#endif
