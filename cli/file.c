/* file.c -- see file.h. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool file_fail(char *error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error, FILE_ERROR, format, args);
    va_end(args);
    return false;
}

char *file_read(const char *path, size_t limit, size_t *bytes_out, char *error)
{
    FILE *const stream = fopen(path, "rb");
    if (stream == NULL) {
        file_fail(error, "%s: %s", path, strerror(errno));
        return NULL;
    }
    size_t room = 4096;
    size_t bytes = 0;
    char *data = malloc(room);
    while (data != NULL && bytes <= limit) {
        bytes += fread(data + bytes, 1, room - 1 - bytes, stream);
        if (bytes < room - 1) break;
        room *= 2;
        char *const larger = realloc(data, room);
        if (larger == NULL) free(data);
        data = larger;
    }
    const int read_error = ferror(stream) ? errno : 0;
    fclose(stream);
    if (data == NULL) {
        file_fail(error, "%s: no memory for %zu bytes", path, room);
        return NULL;
    }
    if (read_error != 0 || bytes > limit) {
        if (read_error != 0)
            file_fail(error, "%s: %s", path, strerror(read_error));
        else
            file_fail(error, "%s: more than %zu bytes", path, limit);
        free(data);
        return NULL;
    }
    data[bytes] = '\0';
    *bytes_out = bytes;
    return data;
}

/* ---- Writing --------------------------------------------------------------------------------- */

void file_drop(file_writer *writer)
{
    if (writer->stream != NULL) fclose(writer->stream);
    writer->stream = NULL;
    if (writer->temporary[0] != '\0') unlink(writer->temporary);
    writer->temporary[0] = '\0';
}

static bool fail_and_drop(file_writer *writer, int reason, char *error)
{
    file_drop(writer);
    return file_fail(error, "%s: cannot be written: %s", writer->path, strerror(reason));
}

static bool open_beside(file_writer *writer, mode_t mode, char *error)
{
    const int length = snprintf(writer->temporary, sizeof writer->temporary, "%s.part%ld",
                                writer->target, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof writer->temporary) {
        writer->temporary[0] = '\0';
        return fail_and_drop(writer, ENAMETOOLONG, error);
    }
    const int file = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (file < 0) {
        const int reason = errno;
        writer->temporary[0] = '\0'; /* not ours to remove */
        return fail_and_drop(writer, reason, error);
    }
    writer->stream = fdopen(file, "wb");
    if (writer->stream == NULL) {
        const int reason = errno;
        close(file);
        return fail_and_drop(writer, reason, error);
    }
    return true;
}

bool file_begin(file_writer *writer, const char *path, char *error)
{
    memset(writer, 0, sizeof *writer);
    if (strlen(path) >= sizeof writer->path)
        return file_fail(error, "path of %zu bytes", strlen(path));
    strcpy(writer->path, path);
    char *const real = realpath(path, NULL);
    if (real != NULL && strlen(real) < sizeof writer->target)
        strcpy(writer->target, real);
    else
        strcpy(writer->target, path);
    free(real);

    struct stat info;
    const bool is_there = stat(writer->target, &info) == 0;
    if (is_there && S_ISDIR(info.st_mode)) return fail_and_drop(writer, EISDIR, error);
    if (!is_there || S_ISREG(info.st_mode))
        return open_beside(writer, is_there ? info.st_mode & 0777 : 0666, error);
    writer->stream = fopen(writer->target, "wb");
    return writer->stream != NULL || fail_and_drop(writer, errno, error);
}

bool file_put(file_writer *writer, const void *data, size_t bytes, char *error)
{
    errno = 0;
    if (bytes == 0 || fwrite(data, 1, bytes, writer->stream) == bytes) return true;
    return fail_and_drop(writer, errno ? errno : EIO, error);
}

bool file_close(file_writer *writer, char *error)
{
    if (fflush(writer->stream) != 0) return fail_and_drop(writer, errno, error);
    /* A file system may find out only now that it is full.  Pipes and devices cannot be synced. */
    if (fsync(fileno(writer->stream)) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP)
        return fail_and_drop(writer, errno, error);
    const int closed = fclose(writer->stream);
    writer->stream = NULL;
    return closed == 0 || fail_and_drop(writer, errno, error);
}

bool file_appear(file_writer *writer, char *error)
{
    if (writer->temporary[0] != '\0' && rename(writer->temporary, writer->target) != 0)
        return fail_and_drop(writer, errno, error);
    writer->temporary[0] = '\0';
    return true;
}
