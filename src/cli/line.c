/* line: what a user says in a chat. At a terminal it is typed with keys that edit it, otherwise it comes as it is.
 *
 *     > a row shows what is around the curs_
 *
 * The text is as long as the caller's memory, and one row of the terminal shows a part of it; when it is given, all of it is
 * shown. So nothing is cut (a terminal's own editor ends a line at 4,095 bytes, without a word), and a text that is pasted is one
 * message, however many lines it has.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <utf8proc.h>

#include "base/safe_text.h"
#include "base/utf8.h"
#include "cli/cli.h"

/* Bytes are keys, as are these; KEY_OTHER does nothing. */
enum {
    KEY_END = -1, KEY_OTHER = 256, KEY_UP, KEY_DOWN, KEY_LEFT, KEY_RIGHT, KEY_HOME, KEY_LAST, KEY_DELETE, KEY_PASTE, KEY_PASTED,
    KEY_NEWLINE, KEY_INTERRUPT
};

#define CONTROL(letter) ((letter) & 31)

typedef struct editor {
    const cli_line *line;
    uint64_t n;       /* bytes that were given; those over the line's cap are not kept */
    size_t at;        /* the cursor, where a character begins */
    uint32_t shown;   /* which of the earlier messages was brought back; n_earlier: none */
    bool is_pasting;
    bool is_drawn;    /* the row shows the text */
    bool is_terminal;
    sigset_t open;    /* signals, while it waits */
} editor;

static size_t kept(const editor *e) { return e->n < e->line->cap ? (size_t)e->n : e->line->cap; }
static bool is_whole(const editor *e) { return e->n <= e->line->cap; }

/* ---- the text ---- */

static void insert(editor *e, const char *bytes, size_t n) {
    size_t have = kept(e), room = e->line->cap - have, part = n < room ? n : room;
    char *at = e->line->text + e->at;
    memmove(at + part, at, have - e->at);
    memcpy(at, bytes, part);
    e->at += part;
    e->n += n;
}

/* Not of a text whose end was not kept: it must not become one that looks whole. */
static void erase(editor *e, size_t from, size_t to) {
    if (!is_whole(e)) return;
    memmove(e->line->text + from, e->line->text + to, kept(e) - to);
    e->n -= to - from;
    e->at = from;
}

static void replace(editor *e, const char *text) {
    e->n = e->at = 0;
    insert(e, text, strlen(text));
}

/* A character, or a byte that is none. What is not shown as it is has a sign of one column for it. */
typedef struct glyph {
    size_t n_bytes;
    int columns;
    bool is_shown;
} glyph;

static glyph glyph_at(const editor *e, size_t i) {
    uint32_t c;
    size_t n = dct_utf8_next(e->line->text + i, kept(e) - i, &c);
    if (n == 0 || dct_is_unsafe_char(c)) return (glyph){n > 0 ? n : 1, 1, false};
    return (glyph){n, utf8proc_charwidth((utf8proc_int32_t)c), true};
}

/* Marks that take no column belong to the character before them. */
static size_t before(const editor *e, size_t i) {
    glyph g = {0};
    while (i > 0 && g.columns == 0) {
        do i--;
        while (i > 0 && ((unsigned char)e->line->text[i] & 0xc0) == 0x80);
        g = glyph_at(e, i);
    }
    return i;
}

static size_t after(const editor *e, size_t i) {
    if (i < kept(e)) i += glyph_at(e, i).n_bytes;
    for (glyph g; i < kept(e) && (g = glyph_at(e, i)).columns == 0; i += g.n_bytes) {}
    return i;
}

static size_t word_before(const editor *e) {
    const char *text = e->line->text;
    size_t i = e->at;
    while (i > 0 && (text[i - 1] == ' ' || text[i - 1] == '\n')) i--;
    while (i > 0 && text[i - 1] != ' ' && text[i - 1] != '\n') i--;
    return i;
}

static bool begins_with(const editor *e, const char *word) {
    return kept(e) >= strlen(word) && memcmp(e->line->text, word, strlen(word)) == 0;
}

static bool ends_with(const editor *e, const char *word) {
    size_t n = strlen(word);
    return kept(e) >= n && memcmp(e->line->text + kept(e) - n, word, n) == 0;
}

/* Whether the text goes on in the next line: behind a backslash, which becomes the newline, and until a """ is closed, where a
 * backslash is one. */
static bool goes_on(editor *e) {
    if (!is_whole(e)) return false;
    bool is_quoted = begins_with(e, "\"\"\"") && !(kept(e) >= 6 && ends_with(e, "\"\"\""));
    e->at = kept(e);
    if (!is_quoted && !ends_with(e, "\\")) return false;
    if (!is_quoted) erase(e, e->at - 1, e->at);
    insert(e, "\n", 1);
    return true;
}

/* The quotes go, and a newline at an end. */
static void unwrap(editor *e) {
    if (!is_whole(e)) return;
    if (kept(e) >= 6 && begins_with(e, "\"\"\"") && ends_with(e, "\"\"\"")) {
        erase(e, kept(e) - 3, kept(e));
        erase(e, 0, 3);
        if (begins_with(e, "\n")) erase(e, 0, 1);
    }
    if (ends_with(e, "\n")) erase(e, kept(e) - 1, kept(e));
}

/* ---- the terminal ---- */

static void put(const char *bytes, size_t n) { cli_out(CLI_STDERR, bytes, n); }

static int usable_columns(void) {
    struct winsize size;
    int columns = ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
    return columns < 8 ? 4 : columns > 404 ? 400 : columns - 4;
}

/* A row of the text, with the cursor at its end, or at three quarters when more follows. */
static void draw(editor *e) {
    static char row[8192];
    int room = usable_columns(), left = 0;
    size_t begin = e->at, have = kept(e), used;
    int most = e->at < have ? room * 3 / 4 : room;
    while (begin > 0) {
        size_t i = before(e, begin);
        int columns = glyph_at(e, i).columns;
        if (left + columns > most) break;
        left += columns;
        begin = i;
    }
    used = (size_t)snprintf(row, sizeof row, "\r> ");
    int drawn = 0;
    for (size_t i = begin; i < have && used < sizeof row - 64;) {
        const glyph g = glyph_at(e, i);
        const char *at = e->line->text + i, *as = g.is_shown ? at : *at == '\n' ? "\xe2\x86\xb5" : "?";
        size_t n_as = g.is_shown ? g.n_bytes : strlen(as);
        if (drawn + g.columns > room) break;
        memcpy(row + used, as, n_as);
        used += n_as;
        drawn += g.columns;
        i += g.n_bytes;
    }
    used += (size_t)snprintf(row + used, sizeof row - used, "\033[K\r\033[%dC", left + 2);
    put(row, used);
    e->is_drawn = true;
}

static void show_whole(const editor *e) {
    put("\r\033[K> ", 6);
    put(e->line->text, kept(e));
    put("\n", 1);
}

static bool open_terminal(struct termios *was) {
    if (!isatty(0) || !cli_can_draw() || tcgetattr(0, was) != 0) return false;
    struct termios raw = *was;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | IEXTEN);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    raw.c_cc[VSUSP] = _POSIX_VDISABLE; /* the terminal is given back before the process stops */
    raw.c_cc[VQUIT] = _POSIX_VDISABLE; /* and before it ends */
    if (tcsetattr(0, TCSADRAIN, &raw) != 0) return false;
    put("\033[?2004h", 8); /* what is pasted comes between ESC[200~ and ESC[201~ */
    return true;
}

static void close_terminal(const struct termios *was) {
    put("\033[?2004l", 8);
    tcsetattr(0, TCSADRAIN, was);
}

/* ---- keys ---- */

/* The next byte of standard input, or KEY_END. What is typed is drawn before it waits, so that a text pasted is drawn once. */
static int next_byte(editor *e) {
    static unsigned char input[512];
    static size_t at, n;
    while (at == n) {
        if (e->is_terminal && !e->is_drawn) draw(e);
        struct pollfd wait = {.fd = 0, .events = POLLIN};
        if (e->line->is_stopped()) {
            bool clears = e->is_terminal && e->n > 0 && e->line->take_interrupt();
            return clears ? KEY_INTERRUPT : KEY_END;
        }
        ssize_t got = ppoll(&wait, 1, NULL, &e->open) < 0 ? -1 : read(0, input, sizeof input);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return KEY_END;
        at = 0;
        n = (size_t)got;
    }
    return input[at++];
}

static int named_key(int last, unsigned number) {
    switch (last) {
    case 'A': return KEY_UP;
    case 'B': return KEY_DOWN;
    case 'C': return KEY_RIGHT;
    case 'D': return KEY_LEFT;
    case 'H': return KEY_HOME;
    case 'F': return KEY_LAST;
    case '~': break;
    default: return KEY_OTHER;
    }
    switch (number) {
    case 1: case 7: return KEY_HOME;
    case 3: return KEY_DELETE;
    case 4: case 8: return KEY_LAST;
    case 200: return KEY_PASTE;
    case 201: return KEY_PASTED;
    default: return KEY_OTHER;
    }
}

/* A key: a byte, or what ESC [ numbers letter, ESC O letter and ESC newline stand for. */
static int next_key(editor *e) {
    unsigned number = 0;
    bool counts = true;
    int c = next_byte(e);
    if (c != 27) return c;
    c = next_byte(e);
    if (c == '\n' || c == '\r') return KEY_NEWLINE;
    if (c == 'O') {
        c = next_byte(e);
        return c == KEY_END || c == KEY_INTERRUPT ? c : named_key(c, 0);
    }
    if (c != '[') return c;
    while ((c = next_byte(e)) >= 0x20 && c < 0x40) {
        counts = counts && c >= '0' && c <= '9' && number < 1000;
        if (counts) number = number * 10 + (unsigned)(c - '0');
    }
    return c == KEY_END || c == KEY_INTERRUPT ? c : named_key(c, number);
}

/* To an earlier message of the user's, or to a later one and in the end to none. */
static void recall(editor *e, bool earlier) {
    uint32_t i = e->shown, n = e->line->n_earlier;
    do {
        if (earlier ? i == 0 : i == n) return;
        i += earlier ? UINT32_MAX : 1;
    } while (i < n && strcmp(e->line->earlier[i].role, "user") != 0);
    e->shown = i;
    replace(e, i < n ? e->line->earlier[i].content : "");
}

/* As the terminal does for programs that leave it the key: with all of the pipeline. */
static void stop_here(const struct termios *was) {
    struct termios now;
    close_terminal(was);
    kill(0, SIGTSTP);
    open_terminal(&now);
}

/* What was typed is left standing, and a new text begins below it. */
static void begin_anew(editor *e) {
    put("^C\n", 3);
    replace(e, "");
    e->shown = e->line->n_earlier;
    e->is_pasting = false;
}

/* Control characters are no text, but for the tab; newlines are for the callers to judge. */
static bool is_text(int key) { return (key >= 0x20 && key < 0x100 && key != 127) || key == '\t'; }

/* Obeys a key that does not end the text. */
static void obey(editor *e, int key) {
    char byte = (char)key;
    switch (key) {
    case KEY_PASTE: e->is_pasting = true; return;
    case KEY_PASTED: e->is_pasting = false; return;
    case KEY_NEWLINE: insert(e, "\n", 1); return;
    case KEY_LEFT: case CONTROL('B'): e->at = before(e, e->at); return;
    case KEY_RIGHT: case CONTROL('F'): e->at = after(e, e->at); return;
    case KEY_HOME: case CONTROL('A'): e->at = 0; return;
    case KEY_LAST: case CONTROL('E'): e->at = kept(e); return;
    case KEY_UP: case CONTROL('P'): recall(e, true); return;
    case KEY_DOWN: case CONTROL('N'): recall(e, false); return;
    case KEY_DELETE: case CONTROL('D'): erase(e, e->at, after(e, e->at)); return;
    case 127: case CONTROL('H'): erase(e, before(e, e->at), e->at); return;
    case CONTROL('U'): replace(e, ""); return;
    case CONTROL('K'): erase(e, e->at, kept(e)); return;
    case CONTROL('W'): erase(e, word_before(e), e->at); return;
    case CONTROL('L'): put("\033[H\033[2J", 7); return;
    default: break;
    }
    if (is_text(key)) insert(e, &byte, 1);
}

/* A pasted byte is no key. */
static void paste(editor *e, int key) {
    char byte = (char)(key == '\r' ? '\n' : key);
    if (key == KEY_PASTED) e->is_pasting = false;
    else if (is_text(key) || byte == '\n') insert(e, &byte, 1);
}

/* True when the text was given, false at the end. */
static bool edit(editor *e, const struct termios *was) {
    for (;;) {
        int key = next_key(e);
        if (key == KEY_END || (key == CONTROL('D') && e->n == 0 && !e->is_pasting)) return false;
        e->is_drawn = false;
        if (key == KEY_INTERRUPT) begin_anew(e);
        else if (e->is_pasting) paste(e, key);
        else if (key == CONTROL('Z')) stop_here(was);
        else if (key != '\n' && key != '\r') obey(e, key);
        else if (!goes_on(e)) return true;
    }
}

static bool take_bytes(editor *e) {
    int c;
    while ((c = next_byte(e)) != KEY_END) {
        char byte = (char)c;
        if (c != '\n') insert(e, &byte, 1);
        else if (!goes_on(e)) return true;
    }
    return e->n > 0;
}

bool cli_read_line(const cli_line *line, uint64_t *n) {
    struct termios was;
    editor e = {.line = line, .shown = line->n_earlier};
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGHUP);
    sigprocmask(SIG_BLOCK, &ours, &e.open);
    cli_note("\n> ");
    e.is_terminal = open_terminal(&was);
    bool given = e.is_terminal ? edit(&e, &was) : take_bytes(&e);
    if (e.is_terminal) {
        if (given) show_whole(&e);
        close_terminal(&was);
    }
    sigprocmask(SIG_SETMASK, &e.open, NULL);
    unwrap(&e);
    *n = e.n;
    return given && !line->is_stopped();
}
