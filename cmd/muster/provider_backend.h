/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the backend of `muster provider run` that --backend names. */
#ifndef MUSTER_PROVIDER_BACKEND_H
#define MUSTER_PROVIDER_BACKEND_H
#include "conf/conf.h"
#include "io/io.h"
#include "obs/log.h"
#include "provider/host/backend.h"

/* Reads the files that the backend's settings name, to check them only. */
enum err provider_backend_check(const struct conf *conf, struct fs *fs, struct note *note);
/* ERR_INVALID or the error of the backend's own open, with a note. */
enum err provider_backend_open(const struct conf *conf, struct io *io, const struct log_source *log,
                               struct backend **ret_backend, struct note *note);
#endif
