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

FILE *file_open(const char *path, char *error)
{
    struct stat info;
    const int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    FILE *stream = NULL;
    if (file >= 0 && fstat(file, &info) == 0 && S_ISFIFO(info.st_mode))
        file_fail(error, "%s: a pipe; a regular file is accepted", path);
    else if (file < 0 || (stream = fdopen(file, "rb")) == NULL)
        file_fail(error, "%s: %s", path, strerror(errno));
    if (stream == NULL && file >= 0) close(file);
    return stream;
}

char *file_read(const char *path, size_t limit, size_t *bytes_out, char *error)
{
    FILE *const stream = file_open(path, error);
    if (stream == NULL) return NULL;
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

/* ---- Names ----------------------------------------------------------------------------------- */

/* The folder that PATH lies in. */
static void folder_of(const char *path, char *folder, size_t room)
{
    const char *const slash = strrchr(path, '/');
    const long length = slash == path ? 1 : slash - path;
    if (slash == NULL)
        snprintf(folder, room, ".");
    else
        snprintf(folder, room, "%.*s", (int)length, path);
}

bool file_follow(const char *path, char *target)
{
    enum { MOST_LINKS = 40 }; /* as many as the system follows */
    char led_to[FILE_PATH];
    struct stat info;
    char *const real = realpath(path, NULL);
    bool fits = snprintf(target, FILE_PATH, "%s", real != NULL ? real : path) < FILE_PATH;
    free(real);
    /* What is there is left: links of /proc lead to pipes by a text that is no path. */
    for (int links = 0; fits && stat(target, &info) != 0; links++) {
        const ssize_t length = readlink(target, led_to, sizeof led_to - 1);
        if (length < 0) return true; /* no link: a file would be made here */
        if (links == MOST_LINKS) {
            errno = ELOOP;
            return false;
        }
        led_to[length] = '\0';
        const char *const slash = strrchr(target, '/');
        const size_t kept = led_to[0] != '/' && slash != NULL ? (size_t)(slash + 1 - target) : 0;
        fits = kept + (size_t)length < FILE_PATH;
        if (fits) strcpy(target + kept, led_to);
    }
    if (!fits) errno = ENAMETOOLONG;
    return fits;
}

/* Where a file of PATH would be made: IN is the folder, and what stands behind it in TARGET is
 * returned; NULL: that folder is not there. */
static const char *name_of(const char *path, char *target, struct stat *in)
{
    char folder[FILE_PATH];
    if (!file_follow(path, target)) return NULL;
    const char *const slash = strrchr(target, '/');
    folder_of(target, folder, sizeof folder);
    return stat(folder, in) == 0 ? (slash != NULL ? slash + 1 : target) : NULL;
}

void file_identify(const char *path, file_identity *identity_out)
{
    char target[FILE_PATH];
    struct stat info;
    file_identity id = {.is_there = stat(path, &info) == 0};
    if (id.is_there) {
        id.is_known = S_ISREG(info.st_mode);
    } else {
        const char *const name = name_of(path, target, &info);
        id.is_known = name != NULL && name[0] != '\0' && strlen(name) <= FILE_NAME;
        if (id.is_known) strcpy(id.name, name);
    }
    if (id.is_known) {
        id.device = info.st_dev;
        id.inode = info.st_ino;
    }
    *identity_out = id;
}

bool file_is_one(const file_identity *one, const file_identity *other)
{
    return one->is_known && other->is_known && one->is_there == other->is_there &&
           one->device == other->device && one->inode == other->inode &&
           strcmp(one->name, other->name) == 0;
}

bool file_is_same(const char *path, const char *other)
{
    file_identity one;
    file_identity two;
    file_identify(path, &one);
    file_identify(other, &two);
    return file_is_one(&one, &two);
}

/* ---- Writing --------------------------------------------------------------------------------- */

void file_drop(file_writer *writer)
{
    if (writer->stream != NULL) fclose(writer->stream);
    writer->stream = NULL;
    if (writer->temporary[0] != '\0') unlink(writer->temporary);
    writer->temporary[0] = '\0';
}

static bool fail_to_write(const char *path, int reason, char *error)
{
    /* Of a pipe or a socket this is all that the system's "No such device or address" means. */
    return file_fail(error, "%s: cannot be written: %s", path,
                     reason == ENXIO ? "nobody reads it" : strerror(reason));
}

/* The lock is the open file's, so that it ends with the process whatever happens. */
static struct flock whole_file(void)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
}

static bool fail_as_held(const char *path, char *error)
{
    return file_fail(error, "%s: another process writes to it; another file is needed", path);
}

/* Takes a regular file, and what is in it away. */
static bool take_it(int file, const char *path, char *error)
{
    struct stat info;
    if (fstat(file, &info) != 0) return fail_to_write(path, errno, error);
    if (!S_ISREG(info.st_mode)) return true;
    struct flock lock = whole_file();
    /* Other errors are of file systems that have no locks. */
    if (fcntl(file, F_OFD_SETLK, &lock) != 0 && (errno == EAGAIN || errno == EACCES))
        return fail_as_held(path, error);
    return ftruncate(file, 0) == 0 || fail_to_write(path, errno, error);
}

int file_grow(const char *path, char *error)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666);
    if (file < 0 || fcntl(file, F_SETFL, 0) != 0)
        fail_to_write(path, errno, error);
    else if (take_it(file, path, error))
        return file;
    if (file >= 0) close(file);
    return -1;
}

/* Of a regular file all at once: a signal does not come between. */
static bool write_all(int file, const char *text, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t wrote = write(file, text + done, bytes - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote == 0) errno = EIO;
        if (wrote <= 0) return false;
        done += (size_t)wrote;
    }
    return true;
}

bool file_add_line(int file, const char *path, const char *line, char *error)
{
    const size_t bytes = strlen(line) + 1;
    char *const text = malloc(bytes);
    if (text == NULL) return fail_to_write(path, ENOMEM, error);
    memcpy(text, line, bytes - 1);
    text[bytes - 1] = '\n';
    const off_t end = lseek(file, 0, SEEK_CUR); /* -1: a pipe */
    const bool written = write_all(file, text, bytes);
    const int reason = errno;
    free(text);
    if (written) return true;
    /* A device has nothing to take back. */
    if (end >= 0 && ftruncate(file, end) == 0) lseek(file, end, SEEK_SET);
    return fail_to_write(path, reason, error);
}

static bool fail_and_drop(file_writer *writer, int reason, char *error)
{
    file_drop(writer);
    return fail_to_write(writer->path, reason, error);
}

static bool name_beside(file_writer *writer, int number)
{
    const int length = snprintf(writer->temporary, sizeof writer->temporary, "%s.part%ld-%d",
                                writer->target, (long)getpid(), number);
    if (length >= 0 && (size_t)length < sizeof writer->temporary) return true;
    writer->temporary[0] = '\0';
    errno = ENAMETOOLONG;
    return false;
}

/* Opens a file beside the target, or gives a name there to the one that is NAMELESS, a path.  Names
 * that are taken are passed over: a process that was killed may have had the same number. */
static int take_name(file_writer *writer, const char *nameless, mode_t mode)
{
    int answer = -1;
    for (int i = 0; answer < 0 && (i == 0 || errno == EEXIST); i++) {
        if (!name_beside(writer, i)) return -1;
        answer = nameless != NULL
                     ? linkat(AT_FDCWD, nameless, AT_FDCWD, writer->temporary, AT_SYMLINK_FOLLOW)
                     : open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    }
    if (answer < 0) writer->temporary[0] = '\0'; /* not ours to remove */
    return answer;
}

/* A file that has no name until file_appear gives it one: nothing is left of it even if the process
 * is killed.  -1 where the file system has none, or where it could not be named later. */
static int open_nameless(const file_writer *writer, mode_t mode)
{
    char folder[FILE_PATH];
    folder_of(writer->target, folder, sizeof folder);
    if (access("/proc/self/fd", X_OK) != 0) return -1;
    return open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, mode);
}

/* In a sticky folder, such as /tmp, a rename replaces only what is one's own, or in a folder of
 * one's own. */
static bool may_replace(const char *target, const struct stat *there)
{
    char folder[FILE_PATH];
    struct stat in;
    const uid_t me = geteuid();
    folder_of(target, folder, sizeof folder);
    if (me == 0 || me == there->st_uid || stat(folder, &in) != 0) return true;
    return !(in.st_mode & S_ISVTX) || me == in.st_uid;
}

/* Is a regular file not to be written, though a rename replaces it or the system lets root write?
 * Then errno says why. */
static bool is_protected(const char *path, const struct stat *there)
{
    errno = EACCES;
    return (there->st_mode & 0222) == 0 || faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0;
}

/* THERE: what it will replace, of which it has the mode; NULL: nothing. */
static bool open_beside(file_writer *writer, const struct stat *there, char *error)
{
    const mode_t mode = there != NULL ? there->st_mode & 0777 : 0666;
    if (there != NULL && is_protected(writer->target, there))
        return fail_and_drop(writer, errno, error);
    if (there != NULL && !may_replace(writer->target, there))
        return fail_and_drop(writer, EPERM, error);
    int file = open_nameless(writer, mode);
    writer->nameless = file >= 0;
    if (file < 0) file = take_name(writer, NULL, mode);
    if (file < 0) return fail_and_drop(writer, errno, error);
    writer->stream = fdopen(file, "wb");
    if (writer->stream != NULL && (there == NULL || fchmod(file, mode) == 0)) return true;
    const int reason = errno;
    if (writer->stream == NULL) close(file);
    return fail_and_drop(writer, reason, error);
}

bool file_begin(file_writer *writer, const char *path, char *error)
{
    memset(writer, 0, sizeof *writer);
    if (strlen(path) >= sizeof writer->path)
        return file_fail(error, "%.60s...: a path of %zu bytes; at most %zu are accepted", path,
                         strlen(path), sizeof writer->path - 1);
    strcpy(writer->path, path);
    if (!file_follow(path, writer->target)) return fail_and_drop(writer, errno, error);
    struct stat info;
    const bool is_there = stat(writer->target, &info) == 0;
    if (is_there && S_ISDIR(info.st_mode)) return fail_and_drop(writer, EISDIR, error);
    if (!is_there || S_ISREG(info.st_mode))
        return open_beside(writer, is_there ? &info : NULL, error);
    const int file = file_grow(path, error);
    if (file < 0) return false;
    writer->stream = fdopen(file, "wb");
    if (writer->stream != NULL) return true;
    const int reason = errno;
    close(file);
    return fail_and_drop(writer, reason, error);
}

/* Makes a file as file_begin does, and lets it go. */
static bool try_it(const char *path, char *error)
{
    file_writer writer;
    struct stat info;
    if (!file_begin(&writer, path, error)) return false;
    /* What replaces a file has a name beside it for a moment. */
    const bool fits =
        !writer.nameless ||
        (name_beside(&writer, 0) && (lstat(writer.temporary, &info) == 0 || errno != ENAMETOOLONG));
    const int reason = errno;
    if (writer.nameless) writer.temporary[0] = '\0'; /* not ours to remove */
    if (!fits) return fail_and_drop(&writer, reason, error);
    file_drop(&writer);
    return true;
}

bool file_check(const char *path, char *error)
{
    struct stat info;
    const bool is_there = stat(path, &info) == 0;
    if (!is_there || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) return try_it(path, error);
    /* A pipe would wait for who reads it, a device may do something when it is opened. */
    int reason = S_ISSOCK(info.st_mode) ? ENXIO : 0;
    if (reason == 0 && access(path, W_OK) != 0) reason = errno;
    return reason == 0 || fail_to_write(path, reason, error);
}

bool file_check_grow(const char *path, char *error)
{
    struct stat info;
    char target[FILE_PATH];
    if (stat(path, &info) == 0) {
        if (!S_ISREG(info.st_mode)) return file_check(path, error);
        return !is_protected(path, &info) || fail_to_write(path, errno, error);
    }
    if (!file_follow(path, target)) return fail_to_write(path, errno, error);
    const int made = file_grow(path, error); /* in its place, whatever it is called */
    if (made < 0) return false;
    unlink(target); /* while it is held: who makes it anew has a file of its own */
    close(made);
    return true;
}

bool file_is_held(const char *path, char *error)
{
    struct flock lock = whole_file();
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return false;
    const int file = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    const bool held = file >= 0 && fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    if (file >= 0) close(file);
    if (held) fail_as_held(path, error);
    return held;
}

bool file_put(file_writer *writer, const void *data, size_t bytes, char *error)
{
    errno = 0;
    if (bytes == 0 || fwrite(data, 1, bytes, writer->stream) == bytes) return true;
    return fail_and_drop(writer, errno ? errno : EIO, error);
}

static bool close_stream(file_writer *writer, char *error)
{
    const int closed = fclose(writer->stream);
    writer->stream = NULL;
    return closed == 0 || fail_and_drop(writer, errno, error);
}

bool file_close(file_writer *writer, char *error)
{
    if (fflush(writer->stream) != 0) return fail_and_drop(writer, errno, error);
    /* A file system may find out only now that it is full.  Pipes and devices cannot be synced. */
    if (fsync(fileno(writer->stream)) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP)
        return fail_and_drop(writer, errno, error);
    /* A file without a name is gone when it is closed. */
    return writer->nameless || close_stream(writer, error);
}

/* Names a nameless file.  A link replaces nothing: what is there is replaced by a rename. */
static bool name_it(file_writer *writer, char *error)
{
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fileno(writer->stream));
    bool named = linkat(AT_FDCWD, self, AT_FDCWD, writer->target, AT_SYMLINK_FOLLOW) == 0;
    if (!named && errno == EEXIST) named = take_name(writer, self, 0) == 0;
    if (!named) return fail_and_drop(writer, errno, error);
    return close_stream(writer, error);
}

bool file_appear(file_writer *writer, char *error)
{
    if (writer->nameless && !name_it(writer, error)) return false;
    if (writer->temporary[0] != '\0' && rename(writer->temporary, writer->target) != 0)
        return fail_and_drop(writer, errno, error);
    writer->temporary[0] = '\0';
    return true;
}
