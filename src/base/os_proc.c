#include "base/os_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"

bool dct_proc_read(const char *root, const char *path, char *text, size_t size) {
    char whole[1024];
    int len = snprintf(whole, sizeof whole, "%s%s", root == NULL ? "" : root, path);
    if (len < 0 || (size_t)len >= sizeof whole) return false;
    int fd = open(whole, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t used = 0;
    ssize_t got = 0;
    while (used < size - 1) {
        got = read(fd, text + used, size - 1 - used);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        used += (size_t)got;
    }
    close(fd);
    text[used] = '\0';
    return got >= 0;
}

const char *dct_proc_find(const char *text, const char *key) {
    size_t n = strlen(key);
    for (const char *line = text; line != NULL;) {
        if (strncmp(line, key, n) == 0 && (line[n] == ':' || line[n] == ' ' || line[n] == '\t')) {
            const char *value = line + n;
            while (*value == ':' || *value == ' ' || *value == '\t') value++;
            return value;
        }
        line = strchr(line, '\n');
        if (line != NULL) line++;
    }
    return NULL;
}

bool dct_proc_digits(const char **p, uint64_t *out) {
    uint64_t v = 0;
    const char *c = *p;
    if (*c < '0' || *c > '9') return false;
    for (; *c >= '0' && *c <= '9'; c++) {
        if (!dct_mul_u64(v, 10, &v) || !dct_add_u64(v, (uint64_t)(*c - '0'), &v)) return false;
    }
    *p = c;
    *out = v;
    return true;
}

bool dct_proc_number(const char *text, const char *key, uint64_t *out) {
    const char *p = dct_proc_find(text, key);
    uint64_t v;
    if (p == NULL || !dct_proc_digits(&p, &v)) return false;
    while (*p == ' ') p++;
    if (strncmp(p, "kB", 2) == 0 && !dct_mul_u64(v, 1024, &v)) return false;
    *out = v;
    return true;
}
