/* SPDX-License-Identifier: Apache-2.0 */
/* One run of a musterctl command: what it was asked, whom it calls, what it prints, and the one
 * frame for a command that is a call: fill the request, call, print the answer as a table, as a
 * line or as JSON. The error's exit code is err_exit_code's.
 *
 * The surprising rule: printing never fails call by call. The first failure is kept in print_err,
 * and the command ends with it. */
#ifndef CTL_CTL_H
#define CTL_CTL_H
#include "conf/command.h"
#include "conf/conf.h"
#include "ctl/remote.h"
#include "ctl/table.h"
#include "text/ndjson.h"

enum { CTL_LINE_MAX = 64 * 1024 };
struct ctl_action;
struct ctl {
    const struct command_call *call;
    const struct ctl_action *action;
    const struct conf *conf;
    struct remote *remote; /* NULL: the command needs none */
    struct arena memory;   /* of the answers, until the command ends */
    struct buf out;        /* printed when the command ends, also when it ends badly */
    enum err print_err;    /* the first failure to append to `out` */
    struct note note;
    int exit_code; /* of a command that ends well, and still has something to say */
    bool json;     /* a document instead of a table */
    bool yaml;     /* and that as YAML */
    bool wide;     /* a list has a column for each scalar field of its rows */
    uint32_t table_flags;
    struct ndjson document;            /* that is being written */
    size_t json_begin;                 /* of the document in `out` */
    bool (*confirm)(const char *what); /* asks a person; NULL: there is none, or --yes is given */
    int (*print)(struct str text);     /* to standard output, at once; an exit code */
    void (*warn)(const struct command_call *call, struct str lines); /* to standard error */
};
typedef enum err ctl_fn(struct ctl *ctl);

void ctl_init(struct ctl *ctl); /* of a zeroed one: memory and out */
void ctl_deinit(struct ctl *ctl);
bool ctl_has_option(const struct ctl *ctl, const char *name);
/* Sets the note; is `err`. */
#define ctl_fail(ctl, err, ...) note_fail(&(ctl)->note, (err), __VA_ARGS__)

/* -- calling -- */

/* The answer; NULL with *ret_err and a note. */
void *ctl_ask(struct ctl *ctl, const struct remote_method *method, const ProtobufCMessage *request,
              enum err *ret_err);
/* protobuf-c wants its strings writable, and never writes. NULL is the empty text. */
char *ctl_text(const char *text);
ProtobufCBinaryData ctl_bytes(const char *text);
struct str ctl_view(ProtobufCBinaryData bytes);

/* -- printing -- */

void ctl_append(struct ctl *ctl, struct str text);       /* as it is */
void ctl_append_shown(struct ctl *ctl, struct str text); /* so that it cannot steer a terminal */
/* A line for people; what it shows of others' text is made printable. */
void ctl_line(struct ctl *ctl, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ctl_print_table(struct ctl *ctl, const struct text_table *table);
struct ndjson *ctl_json_begin(struct ctl *ctl); /* one document at a time */
void ctl_json_end(struct ctl *ctl);
void ctl_json(struct ctl *ctl, const ProtobufCMessage *answer); /* the answer as it is */
/* Writes what is in `out` to standard output now. ERR_CANCELLED: nobody reads it any more. */
enum err ctl_flush(struct ctl *ctl);

/* -- a call as a command -- */

/* A field of the request from an option, or, where `option` is NULL, from the first argument. The
 * field's type says how the option is read; a repeated field is a list. "a.b" is the field b of the
 * message a, which is then there. */
struct ctl_fill {
    const char *field, *option;
};
enum ctl_cell {
    CTL_AS_IS,    /* text, a number, a fixed64 as 16 digits, bytes as hexadecimal, "%.2f" */
    CTL_OR_DASH,  /* the same, and a dash for what is empty */
    CTL_OR_MINUS, /* the same with "-" */
    CTL_TIME,     /* of x_unix_ns, x_ms */
    CTL_COUNT,    /* how many a repeated field has */
};
/* A column of a list. "a.b" is the field b of the message a; of one that is not set, b is empty. */
struct ctl_column {
    const char *title, *field;
    enum ctl_cell cell;
    const char *const *words; /* a number's names, ending with NULL; past them: "?" */
    void (*put)(struct text_table *table, const ProtobufCMessage *row); /* instead of `field` */
};
/* Which of these are set says what the command is: a list has `columns`, a change has `done`. */
struct ctl_rpc {
    struct remote_method method;
    const ProtobufCMessageDescriptor *request;
    const struct ctl_fill *fill; /* ends with a NULL field; NULL: none */
    /* After `fill`: what no option is by itself. */
    enum err (*prepare)(struct ctl *ctl, ProtobufCMessage *request);

    /* Of a list. The rows are the answer's first field, then those of `more_rows`; or what `rows`
     * makes of the answer. */
    const struct ctl_column *columns; /* ends with a NULL title */
    const char *more_rows;
    void (*rows)(struct text_table *table, const ProtobufCMessage *answer);
    void (*head)(struct ctl *ctl, const ProtobufCMessage *answer); /* above the table */
    /* The answer has `more`: the next page is behind the last row's `page_row`, which goes into the
     * request's `page_request`; a number is one more. All pages are printed as one. */
    const char *page_request, *page_row;

    /* Of a change: the line that says so. "{field}" is that of the request, or else of the answer; of
     * a repeated one it is how many. Where the field `done_if` is false or empty the line is
     * `done_else`. For programs it is
     * {"result":"done","request_id":...,"request":{...},"response":{...}}. */
    const char *done, *done_if, *done_else;

    const char *asks; /* what it does, before a person has to confirm it; NULL: nobody is asked */
    bool answer_only; /* for programs it is the answer, as a list's */
    /* Whether the answer says that the change was done; sets the note. */
    enum err (*check)(struct ctl *ctl, const ProtobufCMessage *answer);

    /* Anything else. */
    enum err (*show)(struct ctl *ctl, const ProtobufCMessage *request,
                     const ProtobufCMessage *answer);
};
#define CTL_METHOD(path, base, kind, look)                                                         \
    .method = {(path), &base##_response__descriptor, (kind), (look)},                              \
    .request = &base##_request__descriptor
#define CTL_FILL(...)                                                                              \
    .fill = (const struct ctl_fill[])                                                              \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            NULL, NULL                                                                             \
        }                                                                                          \
    }

#define CTL_READ(path, base)        CTL_METHOD(path, base, REMOTE_READ, NULL)
#define CTL_WRITE(path, base, look) CTL_METHOD(path, base, REMOTE_WRITE, look)
#define CTL_ONCE(path, base, look)  CTL_METHOD(path, base, REMOTE_ONCE, look)
/* CTL_COLUMN("AT", "at_ms", .cell = CTL_TIME) */
#define CTL_COLUMN(name, ...)                                                                      \
    {                                                                                              \
        .title = (name), .field = __VA_ARGS__                                                      \
    }
#define CTL_COLUMNS(...)                                                                           \
    .columns = (const struct ctl_column[])                                                         \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            .title = NULL                                                                          \
        }                                                                                          \
    }

enum err ctl_rpc_run(struct ctl *ctl, const struct ctl_rpc *rpc);
/* Its parts, for commands that are more: options into the request (ERR_INVALID, ERR_NOMEM), every
 * page as one answer, and the list. */
enum err ctl_rpc_fill(struct ctl *ctl, ProtobufCMessage *request, const struct ctl_fill *fill);
enum err ctl_rpc_fetch(struct ctl *ctl, const struct ctl_rpc *rpc, ProtobufCMessage *request,
                       ProtobufCMessage **ret_answer);
void ctl_rpc_print(struct ctl *ctl, const struct ctl_rpc *rpc, const ProtobufCMessage *answer);

/* The action of a command: `act`, or else `rpc`. With an option --watch that is given it is done again
 * every second and printed when it changed, --count times or until somebody interrupts it. */
struct ctl_action {
    ctl_fn *act;
    struct ctl_rpc rpc;
    bool offline; /* it opens its connections itself */
};
enum err ctl_do(struct ctl *ctl);
/* From now on Ctrl-C and SIGTERM end the process at once, with 0. For what has no other end. */
void ctl_end_when_interrupted(void);

/* Exit codes of every command that calls a coordinator. */
#define CTL_EXITS (BIT(3) | BIT(6))
#endif
