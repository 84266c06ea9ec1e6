/* SPDX-License-Identifier: Apache-2.0 */
/* The release and the commit are compiled in; the libraries report their own versions at run time.
 * libraft must be the one release that the simulator runs against. */
#include "common/version.h"

#include <jansson.h>
#include <nghttp2/nghttp2.h>
#include <protobuf-c/protobuf-c.h>
#include <raft.h>

#include "commit.h"
#include "io/real.h"
#include "io/tls.h"

enum { RAFT_VERSION_SIMULATED = 2201 }; /* 0.22.1 */
static_assert(RAFT_VERSION_NUMBER == RAFT_VERSION_SIMULATED, "built against another libraft");

/* libraft's version at run time. Debian's shared library does not export raft_version_number(), but
 * the package's dependency on libraft0 pins the version (docs/adr/0007). */
static int loaded_raft(void)
{
#ifdef MUSTER_SHARED_LIBRARIES
    return RAFT_VERSION_NUMBER;
#else
    return raft_version_number();
#endif
}

const char *version_number(void)
{
    return MUSTER_VERSION;
}

const char *version_commit(void)
{
    return MUSTER_COMMIT;
}

enum err version_print(const char *program, struct buf *into)
{
    int raft = loaded_raft();
    enum err err =
        buf_appendf(into, "%s %s (commit %s, %s)\n", program, MUSTER_VERSION, MUSTER_COMMIT,
#ifdef __clang__
                    "clang " __clang_version__
#else
                    "gcc " __VERSION__
#endif
        );
    if (!err)
        err = buf_appendf(into, "libuv %s\n%s\n", real_io_engine_version(), tls_engine_version());
    if (!err)
        err = buf_appendf(into, "jansson %s\nnghttp2 %s\nprotobuf-c %s\n", jansson_version_str(),
                          nghttp2_version(0)->version_str, protobuf_c_version());
    return err ? err
               : buf_appendf(into, "libraft %d.%d.%d\n", raft / 10000, raft / 100 % 100,
                             raft % 100);
}

enum err version_check_raft(int loaded, struct note *note)
{
    if (loaded == RAFT_VERSION_SIMULATED) return ERR_OK;
    return note_fail(
        note, ERR_VERSION,
        "libraft %d.%d.%d is loaded, but only 0.22.1 has been simulated and is safe to run; "
        "scripts/setup installs it",
        loaded / 10000, loaded / 100 % 100, loaded % 100);
}

enum err version_check_engines(struct note *note)
{
    return version_check_raft(loaded_raft(), note);
}
