/* The rules a role's settings obey as a whole; `muster` and `musterctl config check` ask the
 * same. */
#include <string.h>

#include "common/tables.h"
#include "io/net.h"

/* An empty path is a mistake everywhere; without this the kernel would say so, in other words. */
static enum err check_paths(const struct conf *conf, struct note *note)
{
    static const char *const names[] = {"data-dir", "tls.cert-file", "tls.key-file", "log.file",
                                        "events.file"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *path = conf_text(conf, names[i]);
        if (!path || path[0]) continue;
        note_set(note, "%s must not be empty", names[i]);
        return ERR_INVALID;
    }
    return ERR_OK;
}

static enum err check_dev(const struct conf *conf, struct note *note)
{
    const char *cert = conf_text(conf, "tls.cert-file"), *key = conf_text(conf, "tls.key-file");
    const char *listen = conf_text(conf, "http.listen");
    enum err err = check_paths(conf, note);

    if (err) return err;
    if (!cert != !key) {
        note_set(note, "tls.cert-file and tls.key-file belong together; one of them is missing");
        return ERR_INVALID;
    }
    if (strncmp(listen, "unix:", 5) == 0) {
        note_set(note, "http.listen %s: HTTP needs host:port", listen);
        return ERR_INVALID;
    }
    if (!cert && !address_is_loopback(listen) && !conf_bool(conf, "insecure")) {
        note_set(note,
                 "http.listen %s is not loopback and there is no TLS: set tls.cert-file and "
                 "tls.key-file, or say --insecure",
                 listen);
        return ERR_INVALID;
    }
    return ERR_OK;
}

const struct role dev_role = {.name = "dev", .table = &dev_table, .check = check_dev};
