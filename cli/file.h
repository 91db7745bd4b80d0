/* file.h -- reading whole files, and writing files that are complete or not there at all.
 * Errors are one line in ERROR, which has room for FILE_ERROR bytes, and begin with the path. */
#ifndef CLI_FILE_H
#define CLI_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

enum { FILE_ERROR = 400, FILE_PATH = 4096, FILE_NAME = 255 };

bool file_fail(char *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Opens a file to be read that is no pipe: that might have nobody at its other end. */
FILE *file_open(const char *path, char *error);

/* The whole file, zero-terminated, at most LIMIT bytes; NULL after an error.  Release with free. */
char *file_read(const char *path, size_t limit, size_t *bytes_out, char *error);

/* Where PATH leads to: TARGET, of FILE_PATH bytes, is no link, whether there is a file or one would
 * be made.  False: errno says why not. */
bool file_follow(const char *path, char *target);

/* What a path names: a regular file, or a name in a folder where one would be made. */
typedef struct file_identity {
    bool is_known; /* not of devices and pipes, which may be written as often as one likes */
    bool is_there;
    dev_t device;
    ino_t inode;              /* of the file, or of the folder */
    char name[FILE_NAME + 1]; /* "" of a file that is there */
} file_identity;

void file_identify(const char *path, file_identity *identity_out);
bool file_is_one(const file_identity *one, const file_identity *other);

/* Do both name one file, which is there or would be made? */
bool file_is_same(const char *path, const char *other);

/* Can PATH be written?  Asked before what takes long, and tried with a file that is gone when this
 * returns: what has the name now is not touched. */
bool file_check(const char *path, char *error);

/* Opens PATH, empty, to grow in place line by line: a log, a device, or a pipe that somebody reads;
 * it does not wait for who might do so one day.  A regular file is this process's until it is
 * closed, by a lock: two that write from its beginning would make one heap of both.  A file
 * descriptor, or -1 after an error. */
int file_grow(const char *path, char *error);

/* Adds LINE and its end.  What of it is there when the rest cannot be written is taken back. */
bool file_add_line(int file, const char *path, const char *line, char *error);

/* Could file_grow open it?  As file_check asks; whether another process holds it, file_is_held. */
bool file_check_grow(const char *path, char *error);
bool file_is_held(const char *path, char *error);

/* A file being written in the folder of PATH without a name, or where the file system has no such
 * files under a temporary one.  A device or a pipe is written in place, because a rename would
 * replace it. */
typedef struct file_writer {
    FILE *stream;
    bool nameless;
    char target[FILE_PATH];    /* PATH with links followed */
    char temporary[FILE_PATH]; /* "" when written in place, and without a name */
    char path[FILE_PATH];      /* as given, for errors */
} file_writer;

/* Begins; then file_put; then file_close, after which all of it is on the disk; then file_appear,
 * which gives it its name.  file_drop at any time leaves nothing behind.  After a failure all is
 * dropped already. */
bool file_begin(file_writer *writer, const char *path, char *error);
bool file_put(file_writer *writer, const void *data, size_t bytes, char *error);
bool file_close(file_writer *writer, char *error);
bool file_appear(file_writer *writer, char *error);
void file_drop(file_writer *writer);

#endif
