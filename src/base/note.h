/* SPDX-License-Identifier: Apache-2.0 */
/* The text of an error, in the form of a path: "join replica-2: dial 10.0.0.7:7001: refused".
 *
 * The error code says what to do, and the note says where the error happened. Callers that do not
 * need the note pass NULL. A note has a fixed size; longer text is cut and ends in "...". Notes are
 * in lower case without a full stop. */
#ifndef BASE_NOTE_H
#define BASE_NOTE_H
#include "base/base.h"

#define NOTE_CAP 320
struct note {
    char text[NOTE_CAP];
};

/* Replaces the text. Does nothing if the note is NULL. */
void note_set(struct note *note, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Sets the note and evaluates to `err`, for use in a return statement. */
#define note_fail(note, err, ...) (note_set((note), __VA_ARGS__), (err))
/* Prefixes the text with "<formatted>: ", as an error is passed up. If the text is empty, it
 * becomes "<formatted>". */
void note_prefix(struct note *note, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
