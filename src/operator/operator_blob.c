/* SPDX-License-Identifier: Apache-2.0 */
/* Renders bootstrap data from a template, which is read again after changes. Loop's thread. */
#include "operator/operator_internal.h"

static enum err blob_read_template(struct operator_host *host, struct str text, struct note *note)
{
    struct template *fresh;
    enum err err = template_open(text, &fresh, note);

    if (err) return err;
    template_close(host->template);
    host->template = fresh;
    return ERR_OK;
}

static void operator_blob_on_edited(void *owner, struct str content)
{
    struct operator_host *host = owner;
    struct note note = {""};

    if (blob_read_template(host, content, &note)) {
        host->counts.template_errors++;
        LOG_ERROR(&host->log, "bootstrap template is invalid: the last valid one stays in use",
                  log_text("why", note.text));
    } else {
        LOG_INFO(&host->log, "bootstrap template reloaded");
    }
}

static void operator_blob_on_trouble(void *owner, enum err err, const char *why)
{
    struct operator_host *host = owner;

    host->counts.template_errors++;
    LOG_ERROR(&host->log, "bootstrap template cannot be read: the last valid one stays in use",
              log_err("err", err), log_text("why", why));
}

enum err operator_template_open(struct operator_host *host, const char *path, struct note *note)
{
    struct side_file_options options = {
        .io = host->io,
        .thread = "template",
        .path = path,
        .bytes_max = TEMPLATE_BYTES_MAX,
        .on_content = operator_blob_on_edited,
        .on_trouble = operator_blob_on_trouble,
        .owner = host,
    };
    struct str text;
    enum err err;

    if (!path) return ERR_OK;
    err = side_file_open(&options, &host->template_watch, note);
    if (!err) err = side_file_read(host->template_watch, &text, note);
    if (!err) err = blob_read_template(host, text, note);
    if (err) note_prefix(note, "bootstrap-template: %s", path);
    return err;
}

void operator_blob_wanted(struct operator_host *host, const struct blob_request *request)
{
    struct str error = STR_EMPTY;
    struct note note = {""};
    enum err err = ERR_OK;

    host->counts.blobs++;
    buf_clear(&host->blob);
    if (host->template)
        err = template_render(host->template, str_from(host->cluster), request, &host->blob, &note);
    if (err) {
        error = str_from(note.text[0] ? note.text : err_text(err));
        host->counts.blob_errors++;
        LOG_ERROR(&host->log, "bootstrap data could not be made: the machine will fail",
                  log_str("request", request->request_id), log_str("why", error));
    }
    operator_answer(host, frames_blob(&host->parts, request->request_id, buf_peek(&host->blob),
                                      error, &host->frame));
}
