/* Compares a config with the resolved run file of an earlier attempt, option by option, by full name.
 *
 * Both sides are resolved run files printed by shoal_config_print, so equal values have equal texts.  The comparison
 * therefore needs no types, and works even for values that the current tables would reject. */
#include "base/mem.h"
#include "config/option_impl.h"
#include <string.h>

static bool same_items(const shoal_setting *a, const shoal_setting *b)
{
  bool same = a->is_list == b->is_list && a->items.n == b->items.n;
  for (size_t i = 0; same && i < a->items.n; i++) same = strcmp(a->items.at[i], b->items.at[i]) == 0;
  return same;
}

/* Formats a value as "0.1", "[crop4, hflip]" or "nothing". */
static void add_items(shoal_str *out, const shoal_setting *e)
{
  if (e->is_list) shoal_str_add(out, "[");
  for (size_t i = 0; i < e->items.n; i++) shoal_str_add(out, "%s%s", i ? ", " : "", e->items.at[i]);
  if (e->is_list) shoal_str_add(out, "]");
  if (!e->is_list && e->items.n == 1 && !*e->items.at[0]) shoal_str_add(out, "nothing");
}

static void compare(const shoal_setting *now, const shoal_setting *then, const char *name, shoal_config_change *changed,
                    void *ctx)
{
  shoal_str to = { 0 }, from = { 0 };
  add_items(&to, now);
  if (then) add_items(&from, then);
  if (!then || !same_items(now, then)) changed(ctx, name, then ? from.text : NULL, to.text);
  shoal_str_free(&to);
  shoal_str_free(&from);
}

static shoal_status read_now(const shoal_config *c, shoal_settings *now)
{
  shoal_str text = { 0 };
  shoal_config_print(c, &text);
  shoal_status st = shoal_settings_read_text(now, text.text, "the resolved run file");
  shoal_str_free(&text);
  return st;
}

shoal_status shoal_config_changes(const shoal_config *c, const char *resolved, const char *origin,
                                  shoal_config_change *changed, void *ctx)
{
  shoal_status st;
  shoal_settings *then = NULL, *now = NULL;
  SHOAL_TRY_GOTO(st, shoal_settings_create(&then), done);
  SHOAL_TRY_GOTO(st, shoal_settings_create(&now), done);
  SHOAL_TRY_GOTO(st, shoal_settings_read_text(then, resolved, origin), done);
  SHOAL_TRY_GOTO(st, read_now(c, now), done);
  for (size_t i = 0; i < c->n; i++) {
    const char *name = c->values[i].option->name;
    const shoal_setting *old = shoal_settings_winner(then, name, false);
    if (old || c->values[i].given) compare(shoal_settings_winner(now, name, false), old, name, changed, ctx);
  }
done:
  shoal_settings_destroy(then);
  shoal_settings_destroy(now);
  return st;
}
