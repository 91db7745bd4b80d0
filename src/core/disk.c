/* disk.c -- see disk.h. */
#include "core/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Reading --------------------------------------------------------------------------------- */

/* Reads FILE to its end; *BYTES_OUT is limit + 1 if it is longer than LIMIT. */
static char *read_all(FILE *file, size_t limit, size_t *bytes_out)
{
    size_t room = 4096;
    size_t used = 0;
    char *data = malloc(room);
    while (data != NULL) {
        const size_t want = room - 1 - used;
        const size_t got = fread(data + used, 1, want, file);
        used += got;
        if (got < want || used > limit) break;
        char *const grown = realloc(data, 2 * room);
        if (grown == NULL) {
            free(data);
            return NULL;
        }
        data = grown;
        room *= 2;
    }
    if (data != NULL) data[used] = '\0';
    *bytes_out = used > limit ? limit + 1 : used;
    return data;
}

/* No pipe: it might have nobody at its other end, and nothing here waits for ever. */
static shingle_status open_to_read(const char *path, FILE **file_out)
{
    struct stat about;
    const int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return sg_fail(SHINGLE_EIO, "%s: %s", path, strerror(errno));
    if (fstat(file, &about) == 0 && S_ISFIFO(about.st_mode)) {
        close(file);
        return sg_fail(SHINGLE_EINVAL, "%s: a pipe; a regular file is accepted", path);
    }
    *file_out = fdopen(file, "rb");
    if (*file_out != NULL) return SHINGLE_OK;
    close(file);
    return sg_fail(SHINGLE_ENOMEM, "%s: no memory to read it", path);
}

shingle_status sg_disk_read(const char *path, int64_t limit, char **data_out, size_t *bytes_out)
{
    FILE *file = NULL;
    SG_TRY(open_to_read(path, &file));
    size_t bytes = 0;
    errno = 0;
    char *const data = read_all(file, (size_t)limit, &bytes);
    const bool failed = ferror(file) != 0;
    const int reason = errno;
    fclose(file);
    if (data == NULL) return sg_fail(SHINGLE_ENOMEM, "%s: no memory to read it", path);
    if (failed || bytes > (size_t)limit) {
        free(data);
        if (failed) return sg_fail(SHINGLE_EIO, "%s: %s", path, strerror(reason));
        return sg_fail(SHINGLE_EINVAL, "%s: larger than %lld bytes", path, (long long)limit);
    }
    *data_out = data;
    *bytes_out = bytes;
    return SHINGLE_OK;
}

/* ---- Replacing ------------------------------------------------------------------------------- */

enum { READER_MS = 5000 }; /* for so long who reads a pipe may stand still */

/* 0 once FILE, which is a pipe, has room again. */
static int wait_for_reader(int file)
{
    struct pollfd pipe = {.fd = file, .events = POLLOUT};
    const int ready = poll(&pipe, 1, READER_MS);
    return ready > 0 || (ready < 0 && errno == EINTR) ? 0 : ready == 0 ? ETIMEDOUT : errno;
}

static int write_all(int file, const char *data, size_t bytes)
{
    int error = 0;
    while (bytes > 0 && error == 0) {
        const ssize_t wrote = write(file, data, bytes);
        if (wrote > 0) data += wrote, bytes -= (size_t)wrote;
        if (wrote < 0 && errno != EINTR) error = errno == EAGAIN ? wait_for_reader(file) : errno;
    }
    return error;
}

/* Pipes, devices.  Waits neither for who might read a pipe one day nor long for who does. */
static int write_into(const char *path, const char *data, size_t bytes)
{
    const int file = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return errno;
    const int error = write_all(file, data, bytes);
    return close(file) != 0 && error == 0 ? errno : error;
}

/* A file without a name in the folder of PATH, of which a signal leaves nothing; -1: the file
 * system has none. */
static int open_nameless(const char *path, mode_t mode)
{
    const char *const slash = strrchr(path, '/');
    char *const folder = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
    const bool may = folder != NULL && access("/proc/self/fd", X_OK) == 0;
    const int file = may ? open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, mode) : -1;
    free(folder);
    return file;
}

/* Opens a file that nobody has, beside PATH, or with FILE, which has no name, gives it one, which
 * goes to NAME.  -1: errno says why. */
static int open_beside(const char *path, mode_t mode, int file, char *name, size_t room)
{
    static atomic_uint times;
    char self[40];
    snprintf(self, sizeof self, "/proc/self/fd/%d", file);
    int answer = -1;
    do {
        snprintf(name, room, "%s.part%ld-%u", path, (long)getpid(), atomic_fetch_add(&times, 1));
        answer = file >= 0 ? linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW)
                           : open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    } while (answer < 0 && errno == EEXIST);
    return answer;
}

/* THERE: what has the name now, NULL: nothing. */
static int replace(const char *path, const struct stat *there, const char *data, size_t bytes)
{
    const size_t room = strlen(path) + 48;
    char *const name = malloc(room);
    if (name == NULL) return ENOMEM;
    const mode_t mode = there != NULL ? there->st_mode & 0777 : 0666;
    int file = open_nameless(path, mode);
    bool named = file < 0;
    if (named) file = open_beside(path, mode, -1, name, room);
    int error = file < 0 ? errno : 0;
    if (error == 0 && there != NULL && fchmod(file, mode) != 0) error = errno;
    if (error == 0) error = write_all(file, data, bytes);
    if (error == 0 && fsync(file) != 0) error = errno;
    if (error == 0 && !named) {
        named = open_beside(path, mode, file, name, room) == 0;
        if (!named) error = errno;
    }
    if (file >= 0 && close(file) != 0 && error == 0) error = errno;
    if (error == 0 && rename(name, path) != 0) error = errno;
    if (error != 0 && file >= 0 && named) unlink(name);
    free(name);
    return error;
}

static shingle_status fail_to_write(const char *path, int error)
{
    /* Of a pipe or a socket this is all that the system's "No such device or address" means. */
    return sg_fail(error == ENOMEM ? SHINGLE_ENOMEM : SHINGLE_EIO, "%s: cannot be written: %s",
                   path,
                   error == ENXIO       ? "nobody reads it"
                   : error == ETIMEDOUT ? "who reads it has stopped"
                                        : strerror(error));
}

shingle_status sg_disk_make_target(const char *path)
{
    struct stat there;
    if (lstat(path, &there) != 0 || !S_ISLNK(there.st_mode) || stat(path, &there) == 0)
        return SHINGLE_OK;
    const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    return file >= 0 && close(file) == 0 ? SHINGLE_OK : fail_to_write(path, errno);
}

/* A rename would replace a file that its owner has made read-only, and the system lets root write
 * it. */
static int check_mode(const char *path, const struct stat *there)
{
    if (!S_ISREG(there->st_mode)) return 0;
    if ((there->st_mode & 0222) == 0) return EACCES;
    return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0 ? 0 : errno;
}

shingle_status sg_disk_check(const char *path)
{
    struct stat there;
    const int error = stat(path, &there) == 0 ? check_mode(path, &there) : 0;
    return error == 0 ? SHINGLE_OK : fail_to_write(path, error);
}

static int replace_target(const char *path, const char *data, size_t bytes)
{
    struct stat there;
    char *const led_to = realpath(path, NULL); /* NULL: there is nothing yet */
    const char *const target = led_to != NULL ? led_to : path;
    const bool is_there = stat(target, &there) == 0;
    int error = is_there ? check_mode(target, &there) : 0;
    if (error == 0)
        error = is_there && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode)
                    ? write_into(target, data, bytes)
                    : replace(target, is_there ? &there : NULL, data, bytes);
    free(led_to);
    return error;
}

shingle_status sg_disk_replace(const char *path, const char *data, size_t bytes)
{
    SG_TRY(sg_disk_make_target(path));
    const int error = replace_target(path, data, bytes);
    return error == 0 ? SHINGLE_OK : fail_to_write(path, error);
}
