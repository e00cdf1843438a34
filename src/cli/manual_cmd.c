/* shoal manual: the manual pages, in the man(7) macros, from the same tables as -h and `shoal config`.
 *
 * shoal.1 has the verbs and what they share, shoal-VERB.1 a verb with all of its own, shoal-run.5 every option of a run file. */
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "train/options.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- troff ---- */

/* The character that begins at *c, which is UTF-8 of several bytes; *c moves to its last byte. */
static unsigned long take_wide(const char **c)
{
  unsigned char first = (unsigned char)**c;
  int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
  unsigned long code = first & (0x3fu >> more);
  for (; more > 0 && (*c)[1]; more--) code = code << 6 | ((unsigned char)*++*c & 0x3f);
  return code;
}

/* Characters that troff would take for a command, or print as a typographic sign. */
static void add_escaped(shoal_str *out, const char *text)
{
  static const char *const signs[][2] = { { "\\", "\\e" },  { "-", "\\-" },   { "`", "\\(ga" },
                                          { "'", "\\(aq" }, { "^", "\\(ha" }, { "~", "\\(ti" } };
  for (const char *c = text; *c; c++) {
    const char *sign = NULL;
    for (size_t i = 0; i < SHOAL_COUNT(signs); i++)
      if (*c == signs[i][0][0]) sign = signs[i][1];
    if (*c == '.' && (c == text || c[-1] == ' ' || c[-1] == '\n'))
      shoal_str_add(out, "\\&"); /* a command at the start of a line */
    if (sign)
      shoal_str_add(out, "%s", sign);
    else if ((unsigned char)*c >= 0x80)
      shoal_str_add(out, "\\[u%04lX]", take_wide(&c));
    else
      shoal_str_add(out, "%c", *c);
  }
}

/* A text that may be wrapped anew. */
static void add_text(shoal_str *out, const char *text)
{
  shoal_str escaped = { 0 };
  add_escaped(&escaped, text);
  if (escaped.text) shoal_str_add_wrapped(out, escaped.text, 0, 78);
  shoal_str_free(&escaped);
}

/* Lines that stay as they are. */
static void add_lines(shoal_str *out, const char *lines)
{
  shoal_str_add(out, ".nf\n");
  add_escaped(out, lines);
  shoal_str_add(out, "%s.fi\n", lines[strlen(lines) - 1] == '\n' ? "" : "\n");
}

static void add_title(shoal_str *out, const char *name, int section, const char *about)
{
  char day[16];
  const char *epoch = getenv("SOURCE_DATE_EPOCH"); /* so that builds of a package can be compared byte by byte */
  int64_t seconds;
  time_t now = epoch && shoal_parse_i64(epoch, &seconds) == SHOAL_OK ? (time_t)seconds : time(NULL);
  struct tm date;
  strftime(day, sizeof day, "%Y-%m-%d", gmtime_r(&now, &date));
  shoal_str_add(out, ".TH \"");
  for (const char *c = name; *c; c++) shoal_str_add(out, "%c", toupper((unsigned char)*c));
  shoal_str_add(out, "\" %d %s \"Shoal %s\"\n.SH NAME\n", section, day, SHOAL_VERSION);
  add_escaped(out, name);
  shoal_str_add(out, " \\-\n");
  add_text(out, about);
}

/* One paragraph with a term in bold before it. */
static void add_term(shoal_str *out, const char *term, const char *text)
{
  shoal_str_add(out, ".TP\n\\fB");
  add_escaped(out, term);
  shoal_str_add(out, "\\fR\n");
  add_text(out, text);
}

/* ---- the verbs ---- */

static void add_flag(shoal_str *out, const char *name, const char *alias, const char *metavar, const char *help)
{
  shoal_str_add(out, ".TP\n");
  for (int i = 0; i < 2; i++) {
    const char *form = i ? name : alias;
    if (!form) continue;
    shoal_str_add(out, "\\fB");
    add_escaped(out, form);
    shoal_str_add(out, "\\fR%s", i ? "" : ", ");
  }
  if (metavar) {
    shoal_str_add(out, " \\fI");
    add_escaped(out, metavar);
    shoal_str_add(out, "\\fR");
  }
  shoal_str_add(out, "\n");
  add_text(out, help);
}

static void add_flags(shoal_str *out, const shoal_verb_help *h)
{
  for (const shoal_flag *f = h->flags; f && f->name; f++) add_flag(out, f->name, f->alias, f->metavar, f->help);
  add_flag(out, "--help", "-h", NULL, "show a short form of this page");
}

static void add_usage(shoal_str *out, const shoal_verb_help *h)
{
  shoal_str_add(out, "\\fB");
  add_escaped(out, h->usage);
  shoal_str_add(out, "\\fR\n");
}

/* A verb that stands among others in a page. */
static void add_section(shoal_str *out, const char *above, const shoal_verb *v)
{
  shoal_str_add(out, ".SS shoal %s %s\n", above, v->name);
  add_usage(out, v->help);
  shoal_str_add(out, ".PP\n");
  add_text(out, v->help->about);
  add_flags(out, v->help);
  if (v->help->examples) {
    shoal_str_add(out, ".PP\nExamples:\n.PP\n");
    add_lines(out, v->help->examples);
  }
}

static void add_verb_page(shoal_str *out, const shoal_verb *v)
{
  char name[64];
  snprintf(name, sizeof name, "shoal-%s", v->name);
  add_title(out, name, 1, v->about);
  shoal_str_add(out, ".SH SYNOPSIS\n");
  if (v->verbs) {
    for (const shoal_verb *i = v->verbs; i->name; i++) {
      add_usage(out, i->help);
      if (i[1].name) shoal_str_add(out, ".br\n");
    }
    shoal_str_add(out, ".SH COMMANDS\n");
    for (const shoal_verb *i = v->verbs; i->name; i++) add_section(out, v->name, i);
  } else {
    add_usage(out, v->help);
    shoal_str_add(out, ".SH DESCRIPTION\n");
    add_text(out, v->help->about);
    shoal_str_add(out, ".SH OPTIONS\n");
    add_flags(out, v->help);
    if (v->help->examples) {
      shoal_str_add(out, ".SH EXAMPLES\n");
      add_lines(out, v->help->examples);
    }
  }
  shoal_str_add(out, ".SH SEE ALSO\n.BR shoal (1),\n.BR shoal\\-run (5)\n");
}

static void add_exit_codes(shoal_str *out)
{
  static const struct {
    int code;
    const char *text;
  } statuses[] = {
#define X(name, code, text) { code, text },
    SHOAL_STATUS_LIST(X)
#undef X
  };
  for (size_t i = 0; i < SHOAL_COUNT(statuses); i++) {
    bool again = i > 0 && statuses[i].code == statuses[i - 1].code;
    if (!again) shoal_str_add(out, ".TP\n\\fB%d\\fR\n", statuses[i].code);
    if (again) shoal_str_add(out, "; or\n");
    shoal_str_add(out, "%s%s", statuses[i].text,
                  i + 1 < SHOAL_COUNT(statuses) && statuses[i].code == statuses[i + 1].code ? "" : "\n");
  }
}

static void add_main_page(shoal_str *out)
{
  add_title(out, "shoal", 1, "trains neural networks across slow interconnects");
  shoal_str_add(out, ".SH SYNOPSIS\n\\fBshoal\\fR \\fIVERB\\fR [\\fIarguments\\fR]\n.SH DESCRIPTION\n");
  add_text(out, "Shoal trains neural networks on clusters where the network, not the processor, is the bottleneck. A "
                "run file names the "
                "network, the data set and the training method, that is how ranks communicate. A run lives in the "
                "folder runs/NAME; it "
                "stops with a verified checkpoint and resumes bitwise.");
  shoal_str_add(out, ".SH COMMANDS\n");
  for (const shoal_verb *v = shoal_verbs; v->name; v++) {
    shoal_str_add(out, ".TP\n.BR shoal\\-%s (1)\n", v->name);
    add_text(out, v->about);
  }
  shoal_str_add(out, ".SH OPTIONS\n");
  add_term(out, "--version", shoal_version_help.about);
  for (const shoal_flag *f = shoal_version_help.flags; f->name; f++)
    add_flag(out, f->name, f->alias, f->metavar, f->help);
  add_flag(out, "--help", "-h", NULL, "list the verbs; after a verb, explain it");
  shoal_str_add(out, ".SH EXIT STATUS\n");
  add_exit_codes(out);
  shoal_str_add(out, ".SH ENVIRONMENT\n");
  add_term(out, "SHOAL_SECTION_NAME",
           "An option of the run file: SHOAL_OPTIM_LR for optim.lr. It overrides the file; --set overrides it.");
  add_term(out, "SHOAL_PYTHON",
           "The Python that runs `shoal report`, else python3; also in the commands that messages print.");
  shoal_str_add(out, ".SH EXAMPLES\n");
  add_lines(out, "shoal data synth glyphs -o glyphs.h5\nshoal launch digits.yaml -n 2\nshoal trace show runs/digits\n");
  shoal_str_add(out, ".SH SEE ALSO\n");
  for (const shoal_verb *v = shoal_verbs; v->name; v++) shoal_str_add(out, ".BR shoal\\-%s (1),\n", v->name);
  shoal_str_add(out, ".BR shoal\\-run (5)\n");
}

/* ---- the run file ---- */

static void add_options(shoal_str *out, const shoal_option *options)
{
  for (const shoal_option *o = options; o && o->name; o++) {
    shoal_str text = { 0 };
    shoal_str_add(&text, "%s", o->help);
    if (o->source) shoal_str_add(&text, " [%s]", o->source);
    shoal_str_add(&text, " It is ");
    shoal_option_add_facts(o, &text);
    shoal_str_add(&text, ".");
    add_term(out, o->name, text.text);
    shoal_str_free(&text);
  }
}

static void add_run_page(shoal_str *out)
{
  shoal_option_table tables[SHOAL_TABLES];
  size_t n = shoal_run_tables(NULL, NULL, tables);
  const shoal_model_entry *models;
  const shoal_method *const *methods;
  char line[128];
  add_title(out, "shoal-run", 5, "the run file of shoal, and every option");
  shoal_str_add(out, ".SH DESCRIPTION\n");
  add_text(out, "A YAML file that `shoal launch` and `shoal train` read. An option SECTION.NAME is the key NAME in the "
                "map SECTION. "
                "Unknown keys, and options without effect, are errors. --set SECTION.NAME=VALUE overrides the file, "
                "and so does a "
                "variable SHOAL_SECTION_NAME.");
  shoal_str_add(out, ".SH EXAMPLE\n");
  add_lines(out, "run:    { name: digits, seed: 1, epochs: 5 }\n"
                 "model:  { name: mlp, widths: [512, 512] }\n"
                 "data:   { file: glyphs.h5, global_batch: 128 }\n"
                 "optim:  { name: sgd, lr: 0.1, momentum: 0.9, schedule: cosine }\n"
                 "method: { name: sync }\n");
  shoal_str_add(out, ".SH OPTIONS\n");
  for (size_t t = 0; t < n; t++) add_options(out, tables[t].options);
  shoal_str_add(out, ".SH MODELS\n");
  for (size_t i = 0, count = shoal_models(&models); i < count; i++) {
    shoal_str_add(out, ".SS model: %s\n", models[i].name);
    snprintf(line, sizeof line, "%s.", models[i].about);
    add_text(out, line);
    add_options(out, models[i].options);
  }
  shoal_str_add(out, ".SH METHODS\n");
  for (size_t i = 0, count = shoal_methods(&methods); i < count; i++) {
    shoal_str_add(out, ".SS method: %s\n", methods[i]->name);
    add_text(out, methods[i]->explanation);
    add_options(out, methods[i]->options);
  }
  shoal_str_add(
      out, ".SH SEE ALSO\n.BR shoal (1),\n.BR shoal\\-config (1),\n.BR shoal\\-methods (1),\n.BR shoal\\-models (1)\n");
}

/* ---- the verb itself ---- */

/* Writes FOLDER/manN/NAME.N, and empties the page. */
static shoal_status save(const char *folder, const char *name, int section, shoal_str *page)
{
  char *path = shoal_strdup_printf("%s/man%d", folder, section);
  shoal_status st = shoal_make_dirs(path);
  free(path);
  path = shoal_strdup_printf("%s/man%d/%s.%d", folder, section, name, section);
  if (st == SHOAL_OK) st = shoal_write_file(path, page->text, page->len);
  free(path);
  shoal_str_clear(page);
  return st;
}

static shoal_status save_all(const char *folder)
{
  shoal_str page = { 0 };
  char name[64];
  add_main_page(&page);
  shoal_status st = save(folder, "shoal", 1, &page);
  for (const shoal_verb *v = shoal_verbs; v->name && st == SHOAL_OK; v++) {
    snprintf(name, sizeof name, "shoal-%s", v->name);
    add_verb_page(&page, v);
    st = save(folder, name, 1, &page);
  }
  if (st == SHOAL_OK) {
    add_run_page(&page);
    st = save(folder, "shoal-run", 5, &page);
  }
  shoal_str_free(&page);
  return st;
}

const shoal_verb_help shoal_manual_help = {
  "shoal manual FOLDER",
  "Writes the manual pages to FOLDER/man1 and FOLDER/man5: shoal(1), a page for each verb, and shoal-run(5), every "
  "option of a "
  "run file. Building Shoal does this, and cmake --install installs them.",
  NULL,
  1,
  1,
  "  shoal manual ~/.local/share/man\n",
};

shoal_status shoal_cmd_manual(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  SHOAL_TRY(shoal_args_parse(&shoal_manual_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  const char *const *words;
  shoal_args_words(a, &words);
  shoal_status st = save_all(words[0]);
  shoal_args_destroy(a);
  return st;
}
