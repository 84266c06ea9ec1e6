/* SPDX-License-Identifier: Apache-2.0 */
/* Bounded error texts: formatting never overflows and never fails. */
#include "base/note.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char cut_mark[] = "...";

/* Ends the text in "...", without cutting a UTF-8 character. */
static void mark_cut(char text[NOTE_CAP])
{
    size_t end = NOTE_CAP - sizeof cut_mark;

    while (end > 0 && ((unsigned char)text[end] & 0xC0) == 0x80) end--;
    memcpy(text + end, cut_mark, sizeof cut_mark);
}

static void format_text(char text[NOTE_CAP], const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
static void format_text(char text[NOTE_CAP], const char *format, va_list args)
{
    int wrote = vsnprintf(text, NOTE_CAP, format, args);

    if (wrote < 0) text[0] = '\0'; /* encoding error */
    if (wrote >= NOTE_CAP) mark_cut(text);
}

/* The text is formatted into a copy, because an argument may be the note's own text. */
void note_set(struct note *note, const char *format, ...)
{
    char text[NOTE_CAP];
    va_list args;

    if (!note) return;
    va_start(args, format);
    format_text(text, format, args);
    va_end(args);
    memcpy(note->text, text, strlen(text) + 1);
}

void note_prefix(struct note *note, const char *format, ...)
{
    char before[NOTE_CAP], joined[NOTE_CAP];
    va_list args;

    if (!note) return;
    va_start(args, format);
    format_text(before, format, args);
    va_end(args);
    if (snprintf(joined, NOTE_CAP, "%s%s%s", before, note->text[0] ? ": " : "", note->text) >=
        NOTE_CAP)
        mark_cut(joined);
    memcpy(note->text, joined, strlen(joined) + 1);
}
