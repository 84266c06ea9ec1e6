/* SPDX-License-Identifier: Apache-2.0 */
/* For libmuster.so: loads the library of a store on first use. Any thread.
 *
 * The library is in the directory muster-1 beside libmuster.so, never in a search path. The library
 * stays loaded, because threads of a closed store may still be returning from its code. The symbol
 * version of an opener is muster's version, so an opener of another version is not found. */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "libmuster/store_library.h"
#include "prim/answer.h"

/* dlopen with $ORIGIN would fail when a sanitizer intercepts dlopen, because $ORIGIN is relative to
 * the caller. */
static bool store_library_directory(char directory[PATH_MAX])
{
    static const char here;
    Dl_info info;
    void *own;
    return dladdr1(&here, &info, &own, RTLD_DL_LINKMAP) != 0 &&
           dlinfo(own, RTLD_DI_ORIGIN, directory) == 0;
}

coord_result store_library_opener(const char *name, const char *opener, prim_open_fn **ret_open)
{
    char directory[PATH_MAX] = "", path[PATH_MAX + 32];
    void *library = NULL;
    if (store_library_directory(directory)) {
        (void)snprintf(path, sizeof path, "%s/muster-1/%s.so", directory, name);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    }
    if (library == NULL) {
        const char *why = dlerror();
        return prim_answer(COORD_UNSUPPORTED, COORD_R_BACKEND,
                           "this store needs the package libmuster1-%s: %s", name,
                           why != NULL ? why : "the directory of libmuster.so.1 is not known");
    }
    void *found = dlvsym(library, opener, "MUSTER_" MUSTER_VERSION);
    if (found == NULL) {
        return prim_answer(COORD_UNSUPPORTED, COORD_R_BACKEND,
                           "muster-1/%s.so and libmuster.so.1 are of different versions: install "
                           "libmuster1-%s " MUSTER_VERSION
                           "; after an upgrade, restart this program",
                           name, name);
    }
    static_assert(sizeof found == sizeof *ret_open, "POSIX: a function's address fits");
    memcpy(ret_open, &found, sizeof found);
    return prim_ok(COORD_R_NONE);
}
