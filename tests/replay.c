/* replay.c -- runs a fuzz target over files: `fuzz_NAME FOLDER_OR_FILE...`.  Stands in for
 * libFuzzer, so that every compiler replays the committed corpora in every build. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *const file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    /* A block of its very size, so that the address sanitizer sees a byte read behind it. */
    uint8_t *const data = malloc(size > 0 ? (size_t)size : 1);
    const int failed =
        size < 0 || data == NULL || fread(data, 1, (size_t)size, file) != (size_t)size;
    fclose(file);
    if (failed) {
        fprintf(stderr, "%s: cannot be read\n", path);
    } else {
        LLVMFuzzerTestOneInput(data, (size_t)size);
    }
    free(data);
    return failed;
}

static int replay_folder(const char *path, int *files)
{
    int failed = 0;
    DIR *const folder = opendir(path);
    if (folder == NULL) {
        perror(path);
        return 1;
    }
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (entry->d_name[0] == '.') continue;
        char file[4096];
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        failed |= replay_file(file);
        ++*files;
    }
    closedir(folder);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    int files = 0;
    for (int i = 1; i < argc; i++) {
        struct stat info;
        if (stat(argv[i], &info) == 0 && S_ISDIR(info.st_mode)) {
            failed |= replay_folder(argv[i], &files);
        } else {
            failed |= replay_file(argv[i]);
            files++;
        }
    }
    printf("%d files replayed\n", files);
    return failed || files == 0;
}
