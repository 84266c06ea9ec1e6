/* SPDX-License-Identifier: Apache-2.0 */
/* For libmuster.a and muster's programs: finds the stores that the program was linked with. Any
 * thread.
 *
 * The references are weak, so libmuster.a needs none of the store libraries. The linker flags of
 * muster-NAME.pc name the openers (-u), so that the linker includes them. */
#include <string.h>

#include "libmuster/store_library.h"
#include "prim/answer.h"

#define OPENERS(X) X(prim_etcd_open) X(prim_native_open) X(prim_kube_open) X(prim_nats_open)

#define DECLARE(opener) extern prim_open_fn opener __attribute__((weak));
OPENERS(DECLARE)

coord_result store_library_opener(const char *name, const char *opener, prim_open_fn **ret_open)
{
    static const struct {
        const char *opener;
        prim_open_fn *open;
    } linked[] = {
#define ROW(opener) {#opener, opener},
        OPENERS(ROW)};
    for (size_t i = 0; i < ARRAY_LEN(linked); i++) {
        if (strcmp(linked[i].opener, opener) == 0 && linked[i].open != NULL) {
            *ret_open = linked[i].open;
            return prim_ok(COORD_R_NONE);
        }
    }
    return prim_answer(COORD_UNSUPPORTED, COORD_R_BACKEND,
                       "this program is linked without libmuster-%s.a; pkg-config --libs --static "
                       "muster-%s gives the flags",
                       name, name);
}
