/* The subset of YAML that Shoal's files use: maps, lists and scalars, one item after the other, each with its line and
 * column.
 *
 *   optim: { lr: 0.1 }     MAP  SCALAR optim  MAP  SCALAR lr  SCALAR 0.1  MAP_END  MAP_END  END
 *
 * Anchors, aliases, tags and several documents are rejected, because with each of them a file can mean something other
 * than it seems to.  What the items mean, how deep they nest and how many there may be is up to the reader. */
#ifndef SHOAL_CONFIG_YAML_H
#define SHOAL_CONFIG_YAML_H
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>

typedef enum {
  SHOAL_YAML_SCALAR,
  SHOAL_YAML_MAP,
  SHOAL_YAML_MAP_END,
  SHOAL_YAML_LIST,
  SHOAL_YAML_LIST_END,
  SHOAL_YAML_END /* of the text */
} shoal_yaml_kind;

typedef struct {
  const char *origin; /* name of the text in messages */
  /* The current item. */
  shoal_yaml_kind kind;
  int line, column; /* from 1; of a value that is missing, as in "lr:": those of its key */
  const char *text; /* SCALAR: n bytes of UTF-8 without control characters, until the next item; "" for null, ~ and a
                     * missing value */
  size_t n;
  bool absent; /* SCALAR: a missing value */
  struct shoal_yaml_parser *parser;
} shoal_yaml;

/** Begins to read `text`, which is borrowed, as is `origin`.  ERR_USAGE for bytes that are not UTF-8.  Close it in every
 *  case. */
shoal_status shoal_yaml_open(const char *text, size_t n, const char *origin, shoal_yaml *y);
void shoal_yaml_close(shoal_yaml *y);
/** Goes on to the next item.
 *  @param name  what is expected there, for messages: "optim.lr", "a key"
 *  @return ERR_USAGE with origin:line:column for what is not valid YAML, or not of the subset */
shoal_status shoal_yaml_next(shoal_yaml *y, const char *name);
/** NULL if the bytes are UTF-8 without control characters (except newline and tab), else the first invalid byte. */
const char *shoal_text_fault(const char *text, size_t n);

/* "run.yaml:3:7: " before a message about the current item. */
#define SHOAL_YAML_AT       "%s:%d:%d: "
#define SHOAL_YAML_PLACE(y) (y)->origin, (y)->line, (y)->column
#endif
