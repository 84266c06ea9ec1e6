/* SPDX-License-Identifier: Apache-2.0 */
/* libmuster.a and our own programs: the stores that the program was linked with.
 *
 * The references are weak, so libmuster.a alone needs none of their libraries. The flags of
 * muster-NAME.pc name the openers (-u), which brings them in. Any thread. */
#include <string.h>

#include "libmuster/store_library.h"
#include "prim/answer.h"
#include "prim/etcd/etcd.h"
#include "prim/kube/kube.h"
#include "prim/native/native.h"
#include "prim/nats/nats.h"

#pragma weak prim_etcd_open
#pragma weak prim_native_open
#pragma weak prim_kube_open
#pragma weak prim_nats_open

coord_result store_library_opener(const char *name, const char *opener, prim_open_fn **ret_open)
{
    static const struct {
        const char *opener;
        prim_open_fn *open;
    } linked[] = {
        {"prim_etcd_open", prim_etcd_open},
        {"prim_native_open", prim_native_open},
        {"prim_kube_open", prim_kube_open},
        {"prim_nats_open", prim_nats_open},
    };
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
