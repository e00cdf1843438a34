/* shoal completion: scripts for bash and zsh, from the same tables as -h and `shoal config`.
 *
 * The value of a flag is completed by its metavar: words in lower case (auto|never|FILE) are offered as they are, FILE and FOLDER
 * stand for paths, KEY=VALUE for an option of the run file; others (N, X) are for the user to know. */
#include "base/str.h"
#include "base/texts.h"
#include "cli/cli.h"
#include "train/options.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what can be completed, in words that the scripts know ---- */

/* Of a flag: words, @files, @folders, @options; at least @value, so that a script knows that one follows. */
static void add_values(shoal_str *out, const char *metavar)
{
  if (strcmp(metavar, "KEY=VALUE") == 0) {
    shoal_str_add(out, "@options");
    return;
  }
  shoal_str_add(out, "@value");
  for (const char *word = metavar; *word;) {
    size_t n = strcspn(word, "|");
    bool path = strncmp(word, "FILE", n) == 0, folder = strncmp(word, "FOLDER", n) == 0;
    if (path || folder)
      shoal_str_add(out, path ? " @files" : " @folders");
    else if (n > 1 && word[0] >= 'a' && word[0] <= 'z')
      shoal_str_add(out, " %.*s", (int)n, word);
    word += n + (word[n] == '|');
  }
}

/* Of the arguments of a verb: words for the first, @files, @runfiles, or nothing. */
static void add_arguments(shoal_str *out, const shoal_verb_help *h)
{
  const char *word;
  if (h->max_words == 0) return;
  for (size_t i = 0; h->first && (word = h->first(i)); i++) shoal_str_add(out, "%s%s", i ? " " : "", word);
  if (!h->first || h->max_words != 1)
    shoal_str_add(out, "%s%s", h->first ? " " : "", strstr(h->usage, "RUN.yaml") ? "@runfiles" : "@files");
}

/* Called with the path of a verb ("data synth"). */
typedef void verb_visitor(shoal_str *out, const char *path, const shoal_verb *v);

static void visit(shoal_str *out, verb_visitor *visitor)
{
  for (const shoal_verb *v = shoal_verbs; v->name; v++) {
    visitor(out, v->name, v);
    for (const shoal_verb *i = v->verbs; i && i->name; i++) {
      char path[64];
      snprintf(path, sizeof path, "%s %s", v->name, i->name);
      visitor(out, path, i);
    }
  }
}

/* Called once for each name, though several methods or models may have it; `words` are its choices in all of them. */
typedef void option_visitor(shoal_str *out, const shoal_option *o, const shoal_texts *words);

static shoal_status add_choices(const shoal_option *o, shoal_texts *words)
{
  char choice[64];
  if (o->type == SHOAL_OPT_BOOL && !words->n) {
    SHOAL_TRY(shoal_texts_add(words, "true"));
    SHOAL_TRY(shoal_texts_add(words, "false"));
  }
  for (size_t i = 0; shoal_option_choice(o, i, choice, sizeof choice); i++)
    if (!shoal_texts_have(words, choice)) SHOAL_TRY(shoal_texts_add(words, choice));
  return SHOAL_OK;
}

/* The tables of the run file, of all models and of all methods. */
static size_t option_tables(const shoal_option *tables[64])
{
  shoal_option_table common[SHOAL_TABLES];
  const shoal_model_entry *models;
  const shoal_method *const *methods;
  size_t n = 0, n_common = shoal_run_tables(NULL, NULL, common), n_models = shoal_models(&models),
         n_methods = shoal_methods(&methods);
  for (size_t i = 0; i < n_common; i++) tables[n++] = common[i].options;
  for (size_t i = 0; i < n_models && n < 64; i++)
    if (models[i].options) tables[n++] = models[i].options;
  for (size_t i = 0; i < n_methods && n < 64; i++)
    if (methods[i]->options) tables[n++] = methods[i]->options;
  return n;
}

static shoal_status visit_options(shoal_str *out, option_visitor *visitor)
{
  const shoal_option *tables[64];
  size_t n = option_tables(tables);
  shoal_texts seen = { 0 }, words = { 0 };
  shoal_status st = SHOAL_OK;
  for (size_t t = 0; t < n; t++)
    for (const shoal_option *o = tables[t]; o->name && st == SHOAL_OK; o++) {
      if (shoal_texts_have(&seen, o->name)) continue;
      st = shoal_texts_add(&seen, o->name);
      for (size_t u = t; u < n; u++)
        for (const shoal_option *p = tables[u]; p->name && st == SHOAL_OK; p++)
          if (strcmp(p->name, o->name) == 0) st = add_choices(p, &words);
      if (strcmp(o->name, "model.name") == 0)
        for (size_t i = 0; st == SHOAL_OK && shoal_model_name(i); i++)
          st = shoal_texts_add(&words, shoal_model_name(i));
      if (strcmp(o->name, "method.name") == 0)
        for (size_t i = 0; st == SHOAL_OK && shoal_methods_help.first(i); i++)
          st = shoal_texts_add(&words, shoal_methods_help.first(i));
      visitor(out, o, &words);
      shoal_texts_free(&words);
    }
  shoal_texts_free(&seen);
  return st;
}

static void add_joined(shoal_str *out, const shoal_texts *words)
{
  for (size_t i = 0; i < words->n; i++) shoal_str_add(out, "%s%s", i ? " " : "", words->at[i]);
}

/* ---- bash ---- */

static void bash_arguments(shoal_str *out, const char *path, const shoal_verb *v)
{
  shoal_str_add(out, "  '%s') echo '", path);
  if (v->verbs)
    for (const shoal_verb *i = v->verbs; i->name; i++) shoal_str_add(out, "%s%s", i == v->verbs ? "" : " ", i->name);
  else
    add_arguments(out, v->help);
  shoal_str_add(out, "' ;;\n");
}

static void bash_flags(shoal_str *out, const char *path, const shoal_verb *v)
{
  if (v->verbs) return;
  shoal_str_add(out, "  '%s') echo '", path);
  for (const shoal_flag *f = v->help->flags; f && f->name; f++)
    shoal_str_add(out, "%s%s%s ", f->name, f->alias ? " " : "", f->alias ? f->alias : "");
  shoal_str_add(out, "--help -h' ;;\n");
}

static void bash_values(shoal_str *out, const char *path, const shoal_verb *v)
{
  for (const shoal_flag *f = v->verbs ? NULL : v->help->flags; f && f->name; f++) {
    if (f->type == SHOAL_FLAG_SWITCH) continue;
    shoal_str_add(out, "  '%s %s'%s", path, f->name, f->alias ? "" : ") echo '");
    if (f->alias) shoal_str_add(out, " | '%s %s') echo '", path, f->alias);
    add_values(out, f->metavar);
    shoal_str_add(out, "' ;;\n");
  }
}

static void bash_group(shoal_str *out, const char *path, const shoal_verb *v)
{
  if (v->verbs) shoal_str_add(out, " | %s", path);
}

static void bash_option_name(shoal_str *out, const shoal_option *o, const shoal_texts *words)
{
  shoal_str_add(out, " %s=", o->name);
}

static void bash_option_words(shoal_str *out, const shoal_option *o, const shoal_texts *words)
{
  bool path = o->type == SHOAL_OPT_PATH || o->type == SHOAL_OPT_PATHS;
  if (!path && !words->n) return;
  shoal_str_add(out, "  %s) echo '", o->name);
  add_joined(out, words);
  shoal_str_add(out, "%s' ;;\n", path ? "@files" : "");
}

static const char bash_engine[] =
    "# Whether the words so far are verbs that have verbs of their own.\n"
    "_shoal_group()\n"
    "{\n"
    "  case $1 in\n"
    "  ''%s) return 0 ;;\n"
    "  *) return 1 ;;\n"
    "  esac\n"
    "}\n"
    "\n"
    "# Replies with those of the words $1 that begin with $2; @files and the like stand for what the file system has.\n"
    "_shoal_reply()\n"
    "{\n"
    "  local word words=()\n"
    "  for word in $1; do\n"
    "    case $word in\n"
    "    @files) compopt -o filenames; mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -f -- \"$2\") ;;\n"
    "    @folders) compopt -o filenames; mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -d -- \"$2\") ;;\n"
    "    @runfiles)\n"
    "      compopt -o filenames\n"
    "      mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -d -- \"$2\"; compgen -f -X '!*.y*ml' -- \"$2\")\n"
    "      ;;\n"
    "    @*) ;;\n"
    "    *) words+=(\"$word\") ;;\n"
    "    esac\n"
    "  done\n"
    "  ((${#words[@]})) && mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -W \"${words[*]}\" -- \"$2\")\n"
    "  return 0\n"
    "}\n"
    "\n"
    "# An option of the run file, or what comes after its =.\n"
    "_shoal_setting()\n"
    "{\n"
    "  if [[ $1 == *=* ]]; then\n"
    "    _shoal_reply \"$(_shoal_option \"${1%%%%=*}\")\" \"${1#*=}\"\n"
    "    [[ $COMP_WORDBREAKS == *=* ]] || COMPREPLY=(\"${COMPREPLY[@]/#/${1%%%%=*}=}\")\n"
    "  else\n"
    "    compopt -o nospace\n"
    "    _shoal_reply \"$(_shoal_option '')\" \"$1\"\n"
    "  fi\n"
    "}\n"
    "\n"
    "_shoal()\n"
    "{\n"
    "  local words=() joined=\"\" i word verb=\"\" flag=\"\" count=0 current\n"
    "  COMPREPLY=()\n"
    "  # bash splits words at = and :, which are joined again here\n"
    "  for ((i = 1; i <= COMP_CWORD; i++)); do\n"
    "    word=${COMP_WORDS[i]}\n"
    "    if [[ $word == [=:]* || $joined == [=:] ]] && ((${#words[@]})); then\n"
    "      words[${#words[@]} - 1]+=$word\n"
    "    else\n"
    "      words+=(\"$word\")\n"
    "    fi\n"
    "    joined=${word: -1}\n"
    "  done\n"
    "  current=${words[${#words[@]} - 1]}\n"
    "  for word in \"${words[@]:0:${#words[@]} - 1}\"; do\n"
    "    if [[ $flag ]]; then\n"
    "      flag=\"\"\n"
    "    elif [[ $word == -* ]]; then\n"
    "      [[ $word != *=* && $(_shoal_values \"$verb $word\") ]] && flag=$word\n"
    "    elif _shoal_group \"$verb\"; then\n"
    "      verb+=${verb:+ }$word\n"
    "    else\n"
    "      ((++count))\n"
    "    fi\n"
    "  done\n"
    "  if [[ ! $flag && $current == --*=* ]]; then\n"
    "    flag=${current%%%%=*}\n"
    "    current=${current#*=}\n"
    "  fi\n"
    "  if [[ $flag && $(_shoal_values \"$verb $flag\") == @options ]]; then\n"
    "    _shoal_setting \"$current\"\n"
    "  elif [[ $flag ]]; then\n"
    "    _shoal_reply \"$(_shoal_values \"$verb $flag\")\" \"$current\"\n"
    "  elif [[ $current == -* ]]; then\n"
    "    _shoal_reply \"$(_shoal_flags \"$verb\")\" \"$current\"\n"
    "  elif ((count == 0)); then\n"
    "    _shoal_reply \"$(_shoal_arguments \"$verb\")\" \"$current\"\n"
    "  elif [[ $(_shoal_arguments \"$verb\") == *@files* ]]; then\n"
    "    _shoal_reply @files \"$current\"\n"
    "  fi\n"
    "}\n"
    "complete -F _shoal shoal\n";

static shoal_status add_bash(shoal_str *out)
{
  shoal_str groups = { 0 };
  shoal_str_add(out,
                "# Completion of shoal %s for bash, made by `shoal completion bash`.\n\n"
                "# What may follow these verbs: further verbs, words, files.\n"
                "_shoal_arguments()\n{\n  case $1 in\n  '') echo '",
                SHOAL_VERSION);
  for (const shoal_verb *v = shoal_verbs; v->name; v++)
    shoal_str_add(out, "%s%s", v == shoal_verbs ? "" : " ", v->name);
  shoal_str_add(out, "' ;;\n");
  visit(out, bash_arguments);
  shoal_str_add(out, "  esac\n}\n\n_shoal_flags()\n{\n  case $1 in\n  '') echo '--version --help -h' ;;\n");
  visit(out, bash_flags);
  shoal_str_add(out, "  esac\n}\n\n# The values of a flag; nothing for a switch.\n_shoal_values()\n{\n  case $1 in\n");
  visit(out, bash_values);
  shoal_str_add(out, "  esac\n}\n\n# The options of a run file, or the words that one of them "
                     "takes.\n_shoal_option()\n{\n  case $1 in\n  '') echo '");
  SHOAL_TRY(visit_options(out, bash_option_name));
  shoal_str_add(out, "' ;;\n");
  SHOAL_TRY(visit_options(out, bash_option_words));
  shoal_str_add(out, "  esac\n}\n\n");
  visit(&groups, bash_group);
  shoal_str_add(out, bash_engine, groups.text ? groups.text : "");
  shoal_str_free(&groups);
  return SHOAL_OK;
}

/* ---- zsh ---- */

/* Within single quotes; what _arguments and _describe give a meaning has a backslash before it. */
static void add_zsh(shoal_str *out, const char *text)
{
  for (const char *c = text; *c; c++)
    if (*c == '\'')
      shoal_str_add(out, "'\\''");
    else
      shoal_str_add(out, strchr("[]:\\", *c) ? "\\%c" : "%c", *c == '\n' ? ' ' : *c);
}

/* What completes these words: an action of _arguments. */
static void add_zsh_action(shoal_str *out, const char *words)
{
  bool literal = *words && words[0] != '@', files = strstr(words, "@files");
  if (strcmp(words, "@options") == 0)
    shoal_str_add(out, "_shoal_setting");
  else if (strstr(words, "@runfiles"))
    shoal_str_add(out, "_files -g \"*.y(a|)ml\"");
  else if (literal && files)
    shoal_str_add(out, "{ compadd -- %.*s; _files }", (int)(strstr(words, "@files") - words), words);
  else if (literal)
    shoal_str_add(out, "(%s)", words);
  else if (files)
    shoal_str_add(out, "_files");
  else
    shoal_str_add(out, strstr(words, "@folders") ? "_files -/" : " ");
}

static void add_zsh_flag(shoal_str *out, const shoal_flag *f)
{
  shoal_str values = { 0 };
  bool twice = f->type == SHOAL_FLAG_LIST;
  for (int i = 0; i < 2; i++) {
    const char *name = i ? f->alias : f->name;
    if (!name) continue;
    shoal_str_add(out, " \\\n    '");
    if (f->alias && !twice) shoal_str_add(out, "(%s %s)", f->name, f->alias);
    shoal_str_add(out, "%s%s%s[", twice ? "*" : "", name,
                  f->type == SHOAL_FLAG_SWITCH  ? ""
                  : strncmp(name, "--", 2) == 0 ? "="
                                                : "+");
    add_zsh(out, f->help);
    shoal_str_add(out, "]");
    if (f->type != SHOAL_FLAG_SWITCH) {
      shoal_str_clear(&values);
      add_values(&values, f->metavar);
      const char *words = values.text;
      if (strncmp(words, "@value ", 7) == 0) words += 7;
      shoal_str_add(out, ":");
      add_zsh(out, f->metavar);
      shoal_str_add(out, ":");
      add_zsh_action(out, words);
    }
    shoal_str_add(out, "'");
  }
  shoal_str_free(&values);
}

static void zsh_verb(shoal_str *out, const char *path, const shoal_verb *v)
{
  char function[64];
  snprintf(function, sizeof function, "%s", path);
  for (char *c = function; *c; c++)
    if (*c == ' ') *c = '-';
  shoal_str_add(out, "_shoal-%s()\n{\n", function);
  if (v->verbs) {
    shoal_str_add(out, "  _shoal_verbs _shoal-%s", function);
    for (const shoal_verb *i = v->verbs; i->name; i++) {
      shoal_str_add(out, " \\\n    '%s:", i->name);
      add_zsh(out, i->about);
      shoal_str_add(out, "'");
    }
  } else {
    shoal_str arguments = { 0 };
    shoal_str_add(out, "  _arguments -s -S");
    for (const shoal_flag *f = v->help->flags; f && f->name; f++) add_zsh_flag(out, f);
    shoal_str_add(out, " \\\n    '(- *)'{-h,--help}'[show help]'");
    add_arguments(&arguments, v->help);
    if (arguments.text) {
      const char *files = strchr(arguments.text, '@');
      if (v->help->first) {
        shoal_str_add(out, " \\\n    '1:word:(%.*s)'", (int)(files ? files - arguments.text : (long)arguments.len),
                      arguments.text);
      }
      if (files) {
        shoal_str_add(out, " \\\n    '%s:file:", v->help->max_words == 1 ? "1" : "*");
        add_zsh_action(out, files);
        shoal_str_add(out, "'");
      }
    }
    shoal_str_free(&arguments);
  }
  shoal_str_add(out, "\n}\n\n");
}

static void zsh_option_name(shoal_str *out, const shoal_option *o, const shoal_texts *words)
{
  shoal_str_add(out, "    '%s:", o->name);
  add_zsh(out, o->help);
  shoal_str_add(out, "'\n");
}

static void zsh_option_words(shoal_str *out, const shoal_option *o, const shoal_texts *words)
{
  bool path = o->type == SHOAL_OPT_PATH || o->type == SHOAL_OPT_PATHS;
  if (!path && !words->n) return;
  shoal_str_add(out, "    (%s) ", o->name);
  if (path) {
    shoal_str_add(out, "_files");
  } else {
    shoal_str_add(out, "compadd -- ");
    add_joined(out, words);
  }
  shoal_str_add(out, " ;;\n");
}

static shoal_status add_zsh_script(shoal_str *out)
{
  shoal_str_add(out,
                "#compdef shoal\n# Completion of shoal %s for zsh, made by `shoal completion zsh`.\n\n"
                "# Verbs NAME:DESCRIPTION, then what completes the one that is given: a function PREFIX-NAME.\n"
                "_shoal_verbs()\n"
                "{\n"
                "  local prefix=$1 curcontext=$curcontext state line\n"
                "  local -a verbs\n"
                "  verbs=(\"${@[2,-1]}\")\n"
                "  _arguments -C '(- *)'{-h,--help}'[show help]' '1:verb:->verb' '*::argument:->arguments'\n"
                "  case $state in\n"
                "  verb) _describe verb verbs ;;\n"
                "  arguments) (( $+functions[$prefix-$line[1]] )) && $prefix-$line[1] ;;\n"
                "  esac\n"
                "}\n\n"
                "# An option of the run file, or what comes after its =.\n"
                "_shoal_setting()\n"
                "{\n"
                "  local key=${PREFIX%%%%=*}\n"
                "  local -a options\n"
                "  if compset -P 1 '*='; then\n"
                "    case $key in\n",
                SHOAL_VERSION);
  SHOAL_TRY(visit_options(out, zsh_option_words));
  shoal_str_add(out, "    esac\n    return\n  fi\n  options=(\n");
  SHOAL_TRY(visit_options(out, zsh_option_name));
  shoal_str_add(out, "  )\n  _describe option options -S= -q\n}\n\n");
  visit(out, zsh_verb);
  shoal_str_add(out, "_shoal()\n{\n  _shoal_verbs _shoal");
  for (const shoal_verb *v = shoal_verbs; v->name; v++) {
    shoal_str_add(out, " \\\n    '%s:", v->name);
    add_zsh(out, v->about);
    shoal_str_add(out, "'");
  }
  shoal_str_add(out,
                "\n}\n\nif [[ $funcstack[1] == _shoal ]]; then\n  _shoal \"$@\"\nelse\n  compdef _shoal shoal\nfi\n");
  return SHOAL_OK;
}

/* ---- the verb itself ---- */

static const char *shell_name(size_t i)
{
  static const char *const names[] = { "bash", "zsh", NULL };
  return names[i];
}

const shoal_verb_help shoal_completion_help = {
  "shoal completion bash|zsh",
  "Prints a script that makes the Tab key complete verbs, options and the options of a run file. cmake --install "
  "installs "
  "both where shells look for them; without an installation a shell can read the output.",
  NULL,
  1,
  1,
  "  source <(shoal completion bash)     # in ~/.bashrc; zsh: in ~/.zshrc, after compinit\n",
  shell_name,
};

shoal_status shoal_cmd_completion(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  SHOAL_TRY(shoal_args_parse(&shoal_completion_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  const char *const *words;
  shoal_args_words(a, &words);
  shoal_str out = { 0 };
  shoal_status st = strcmp(words[0], "bash") == 0 ? add_bash(&out)
                    : strcmp(words[0], "zsh") == 0
                        ? add_zsh_script(&out)
                        : SHOAL_FAIL(SHOAL_ERR_USAGE, "there is no completion for \"%s\": bash or zsh", words[0]);
  if (st == SHOAL_OK) fputs(out.text, stdout);
  shoal_str_free(&out);
  shoal_args_destroy(a);
  return st;
}
