/* SPDX-License-Identifier: Apache-2.0 */
/* One run of a musterctl command: its options, its server and its output. For a command that makes
 * one call, a table has the fields to fill in, the method, and the columns to print.
 *
 * Functions that print return no error: the first failure is kept in print_err, and the command
 * ends with it. err_exit_code gives the exit code of an error. */
#ifndef CTL_CTL_H
#define CTL_CTL_H
#include "conf/command.h"
#include "conf/conf.h"
#include "ctl/remote.h"
#include "ctl/table.h"
#include "text/ndjson.h"

enum { CTL_LINE_MAX = 64 * 1024, CTL_INPUT_MAX = 1048576 + 4096 };
struct ctl_action;
struct ctl {
    const struct command_call *call;
    const struct ctl_action *action;
    const struct conf *conf;
    struct remote *remote; /* NULL: the command needs no connection */
    struct arena memory;   /* holds the answers until the command ends */
    struct buf out;        /* printed when the command ends, even after an error */
    enum err print_err;    /* the first failure to append to `out` */
    struct note note;
    int exit_code; /* exit code of a command that succeeds but reports a problem */
    bool json;     /* print a document instead of a table */
    bool yaml;
    bool wide; /* tables get a column for each scalar field */
    uint32_t table_flags;
    struct ndjson document;
    size_t json_begin;                 /* where the document begins in `out` */
    bool (*confirm)(const char *what); /* asks a person; NULL: do not ask */
    int (*print)(struct str text);     /* writes to stdout; returns an exit code */
    void (*warn)(const struct command_call *call, struct str lines); /* to standard error */
};
typedef enum err ctl_fn(struct ctl *ctl);

void ctl_init(struct ctl *ctl);
void ctl_deinit(struct ctl *ctl);
bool ctl_has_option(const struct ctl *ctl, const char *name);
/* Asks for a confirmation if `confirm` is set. ERR_INVALID, with a note: the person says no. */
enum err ctl_confirm(struct ctl *ctl, const char *what);
/* Reads standard input to its end. ERR_TOO_LARGE, ERR_NOMEM, ERR_IO; with a note. */
enum err ctl_read_input(struct ctl *ctl, struct str *ret_text);
/* Sets the note; is `err`. */
#define ctl_fail(ctl, err, ...) note_fail(&(ctl)->note, (err), __VA_ARGS__)

/* -- calling -- */

/* Calls a method and returns the answer, or NULL with *ret_err and a note. */
void *ctl_ask(struct ctl *ctl, const struct remote_method *method, const ProtobufCMessage *request,
              enum err *ret_err);
/* protobuf-c wants a writable string, but never writes to it. NULL becomes "". */
char *ctl_text(const char *text);
ProtobufCBinaryData ctl_bytes(const char *text);
struct str ctl_view(ProtobufCBinaryData bytes);

/* -- printing -- */

void ctl_append(struct ctl *ctl, struct str text);       /* as it is */
void ctl_append_shown(struct ctl *ctl, struct str text); /* escapes control characters */
/* Appends a line for people. Control characters in its arguments are escaped. */
void ctl_line(struct ctl *ctl, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ctl_print_table(struct ctl *ctl, const struct text_table *table);
struct ndjson *ctl_json_begin(struct ctl *ctl); /* one document at a time */
void ctl_json_end(struct ctl *ctl);
void ctl_json(struct ctl *ctl, const ProtobufCMessage *answer);
/* Writes `out` to standard output now. ERR_CANCELLED: the reader has closed the pipe. */
enum err ctl_flush(struct ctl *ctl);

/* Sets a request's field from an option, or from the first argument if `option` is NULL. "a.b" is
 * the field b of the message a, which is created. */
struct ctl_fill {
    const char *field, *option;
};
enum ctl_cell {
    CTL_AS_IS,    /* text, number, fixed64 and bytes in hex, or "%.2f" */
    CTL_OR_DASH,  /* CTL_AS_IS, but U+2014 for an empty value */
    CTL_OR_MINUS, /* CTL_AS_IS, but "-" for an empty value */
    CTL_TIME,     /* from a field x_unix_ns or x_ms */
    CTL_COUNT,
};
/* A column of a list. "a.b" is the field b of the message a; empty without a. */
struct ctl_column {
    const char *title, *field;
    enum ctl_cell cell;
    const char *const *words; /* texts for the values of a number, then NULL */
    void (*put)(struct text_table *table, const ProtobufCMessage *row); /* replaces `field` */
};
/* A command that is one call. A list sets `columns`, a change sets `done`. */
struct ctl_rpc {
    struct remote_method method;
    const ProtobufCMessageDescriptor *request;
    const struct ctl_fill *fill; /* ends with a NULL field; may be NULL */
    /* Called after `fill`, for the other fields. */
    enum err (*prepare)(struct ctl *ctl, ProtobufCMessage *request);

    /* A list. Its rows are the answer's first field, then the field `more_rows`. `rows`, if set,
     * makes the rows instead. */
    const struct ctl_column *columns; /* ends with a NULL title */
    const char *more_rows;
    void (*rows)(struct text_table *table, const ProtobufCMessage *answer);
    void (*head)(struct ctl *ctl, const ProtobufCMessage *answer); /* above the table */
    /* A list in pages: while the answer's field `more` is set, the request is repeated. Its field
     * `page_request` is then `page_row` of the last row (a number: plus one). */
    const char *page_request, *page_row;

    /* A change: the line that reports success. "{field}" is replaced by the field of the request,
     * or else of the answer. `done_else` is printed instead if the field `done_if` is false or
     * empty. JSON output is
     *   {"result":"done","request_id":...,"request":{...},"response":{...}} */
    const char *done, *done_if, *done_else;

    const char *asks; /* asks: what happens, like `done`, for the confirmation; or NULL */
    bool answer_only; /* answer_only: JSON output has only the answer, as for a list */
    /* Returns whether the answer reports success; if not, sets the note. */
    enum err (*check)(struct ctl *ctl, const ProtobufCMessage *answer);

    /* Anything else. */
    enum err (*show)(struct ctl *ctl, const ProtobufCMessage *request,
                     const ProtobufCMessage *answer);
};
#define CTL_METHOD(path, base, kind, look)                                                         \
    .method = {(path), &base##_response__descriptor, (kind), (look)},                              \
    .request = &base##_request__descriptor
#define CTL_FILL(...) .fill = ((const struct ctl_fill[]){__VA_ARGS__, {NULL, NULL}})

#define CTL_READ(path, base)        CTL_METHOD(path, base, REMOTE_READ, NULL)
#define CTL_WRITE(path, base, look) CTL_METHOD(path, base, REMOTE_WRITE, look)
#define CTL_ONCE(path, base, look)  CTL_METHOD(path, base, REMOTE_ONCE, look)
/* Example: CTL_COLUMN("AT", "at_ms", .cell = CTL_TIME) */
#define CTL_COLUMN(name, ...)                                                                      \
    {                                                                                              \
        .title = (name), .field = __VA_ARGS__                                                      \
    }
#define CTL_COLUMNS(...) .columns = ((const struct ctl_column[]){__VA_ARGS__, {.title = NULL}})

enum err ctl_rpc_run(struct ctl *ctl, const struct ctl_rpc *rpc);
/* For larger commands: fill the request from options (ERR_INVALID, ERR_NOMEM), fetch all pages as
 * one answer, print the list. */
enum err ctl_rpc_fill(struct ctl *ctl, ProtobufCMessage *request, const struct ctl_fill *fill);
enum err ctl_rpc_fetch(struct ctl *ctl, const struct ctl_rpc *rpc, ProtobufCMessage *request,
                       ProtobufCMessage **ret_answer);
void ctl_rpc_print(struct ctl *ctl, const struct ctl_rpc *rpc, const ProtobufCMessage *answer);

/* The action of a command: `act` if it is set, otherwise `rpc`. --watch repeats the action every
 * second, --count times or until the user interrupts it, and prints changed output. */
struct ctl_action {
    ctl_fn *act;
    struct ctl_rpc rpc;
    bool offline; /* the command opens its connections itself */
};
enum err ctl_do(struct ctl *ctl);
/* From now on Ctrl-C and SIGTERM end the process with code 0, for commands without another end. */
void ctl_end_when_interrupted(void);

/* Exit codes of every command that calls a coordinator. */
#define CTL_EXITS (BIT(3) | BIT(6))
#endif
