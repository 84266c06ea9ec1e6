/* SPDX-License-Identifier: Apache-2.0 */
/* The text of an error, in the form of a path: "join replica-2: dial 10.0.0.7:7001: refused".
 *
 * The text is in lower case without a full stop. A longer text is cut and ends in "...". Callers
 * that do not need the text pass NULL. */
#ifndef BASE_NOTE_H
#define BASE_NOTE_H
#include "base/base.h"

#define NOTE_CAP 320
struct note {
    char text[NOTE_CAP];
};

/* Does nothing if the note is NULL. */
void note_set(struct note *note, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Sets the note and evaluates to `err`, for use in a return statement. */
#define note_fail(note, err, ...) (note_set((note), __VA_ARGS__), (err))
/* Puts "<formatted>: " before the text. An empty text becomes "<formatted>". */
void note_prefix(struct note *note, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
