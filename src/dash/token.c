/* SPDX-License-Identifier: Apache-2.0 */
/* Reads, checks and creates the token when the process starts. Blocks. Never logs the token. */
#include "dash/token.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

enum { TOKEN_FILE_MAX = 4096, TOKEN_FILE_MODE = 0600 };

static bool token_is_good(struct str token)
{
    if (token.len < DASH_TOKEN_MIN || token.len > DASH_TOKEN_MAX) return false;
    for (size_t i = 0; i < token.len; i++)
        if (!isalnum((unsigned char)token.at[i]) && token.at[i] != '-' && token.at[i] != '_')
            return false;
    return true;
}

enum err dash_token_read(struct fs *fs, const char *path, char ret_token[DASH_TOKEN_MAX + 1],
                         struct note *note)
{
    struct buf content;
    struct str token;
    enum err err;

    buf_init(&content, TOKEN_FILE_MAX);
    err = fs_read_whole(fs, path, TOKEN_FILE_MAX, &content);
    token = str_trim(buf_peek(&content));
    if (err) {
        note_set(note, "%s: %s", path, err_text(err));
    } else if (!token_is_good(token)) {
        note_set(note, "%s: expected one line of %d to %d letters and digits", path, DASH_TOKEN_MIN,
                 DASH_TOKEN_MAX);
        err = ERR_INVALID;
    } else {
        memcpy(ret_token, token.at, token.len);
        ret_token[token.len] = '\0';
    }
    buf_deinit(&content);
    return err;
}

enum err dash_token_make(struct io *io, const char *path, char ret_token[DASH_TOKEN_MAX + 1],
                         struct note *note)
{
    uint64_t high = entropy_u64(io->entropy), low = entropy_u64(io->entropy);
    char line[DASH_TOKEN_MAX + 2];
    enum err err;

    snprintf(line, sizeof line, "%016" PRIx64 "%016" PRIx64 "\n", high, low);
    err = fs_publish(io->fs, path, str_from(line), TOKEN_FILE_MODE, entropy_u64(io->entropy));
    if (err)
        note_set(note, "%s: %s", path, err_text(err));
    else
        snprintf(ret_token, DASH_TOKEN_MAX + 1, "%.32s", line);
    return err;
}

enum err dash_token_check(struct fs *fs, const char *path, struct note *note)
{
    const char *slash = strrchr(path, '/');
    struct fs_info info = {.kind = FS_DIRECTORY};
    char parent[FS_PATH_CAP], token[DASH_TOKEN_MAX + 1];
    struct note own = {""}; /* a missing file is not an error */
    enum err err = dash_token_read(fs, path, token, &own);

    if (err == ERR_NOT_FOUND && slash) { /* the file will be created, in an existing directory */
        snprintf(parent, sizeof parent, "%.*s", (int)max_size((size_t)(slash - path), 1), path);
        err = fs_stat(fs, parent, &info);
    } else if (err == ERR_NOT_FOUND) {
        err = ERR_OK;
    }
    if (!err && info.kind != FS_DIRECTORY) err = ERR_INVALID;
    if (!err) return ERR_OK;
    return note_fail(
        note, ERR_INVALID,
        "dashboard.token-file %s: %s; it must be one line of %d to %d letters and digits, or not "
        "be there and its directory must",
        path, err_text(err), DASH_TOKEN_MIN, DASH_TOKEN_MAX);
}
