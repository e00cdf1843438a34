/* Identity of a layout: which ranks share a node, and nothing else.
 *
 *     rank            0  1  2  3                      0  1  2  3
 *     host            a  a  b  b    block             a  b  a  b    cyclic
 *     node            0  0  1  1    hash f0c1...      0  1  0  1    hash 63a8...
 *
 * Nodes are numbered by first appearance in rank order, so that the numbers depend on the layout alone.  A layout is
 * identified by their 64-bit FNV-1a hash, which is short enough to print for any number of nodes. */
#include "topo/topo.h"
#include <inttypes.h>
#include <string.h>

typedef struct {
  uint64_t hash;
  int nodes; /* so far */
} identity;

static const identity nothing = { .hash = 14695981039346656037u };

/* Returns false unless `node` is a known node or the next number. */
static bool add_rank(identity *i, int64_t node)
{
  if (node < 0 || node > i->nodes) return false;
  for (int byte = 0; byte < 4; byte++) i->hash = (i->hash ^ (node >> 8 * byte & 0xff)) * 1099511628211u;
  if (node == i->nodes) i->nodes++;
  return true;
}

static void print(const identity *i, char out[SHOAL_LAYOUT_HASH])
{
  snprintf(out, SHOAL_LAYOUT_HASH, "%016" PRIx64, i->hash);
}

void shoal_topo_layout_hash(const shoal_topo *t, char out[SHOAL_LAYOUT_HASH])
{
  identity i = nothing;
  for (int r = 0; r < t->size; r++) add_rank(&i, t->places[r].node);
  print(&i, out);
}

shoal_status shoal_topo_read_layout(const char *placement, int64_t size, char out[SHOAL_LAYOUT_HASH])
{
  identity i = nothing;
  json_t *root;
  SHOAL_TRY(shoal_json_read(placement, "placement", &root));
  const json_t *places = json_object_get(root, "places");
  bool good = json_is_array(places) && (int64_t)json_array_size(places) == size;
  for (size_t r = 0; good && r < json_array_size(places); r++) {
    const json_t *place = json_array_get(places, r), *node = json_object_get(place, "node");
    good = json_is_integer(node) && json_integer_value(json_object_get(place, "rank")) == (json_int_t)r &&
           add_rank(&i, json_integer_value(node));
  }
  json_decref(root);
  SHOAL_CHECK(good, SHOAL_ERR_IO, "placement: not the nodes of %" PRId64 " ranks", size);
  print(&i, out);
  return SHOAL_OK;
}

static int ranks_of(const shoal_topo *t, int node)
{
  int ranks = 0;
  for (int r = 0; r < t->size; r++) ranks += t->places[r].node == node;
  return ranks;
}

void shoal_topo_layout_text(const shoal_topo *t, char *out, size_t cap)
{
  char end[48];
  bool interleaved = false;
  for (int r = 1; r < t->size; r++) interleaved |= t->places[r].node < t->places[r - 1].node;
  const char *more = interleaved ? " interleaved" : "";
  size_t used = 0, room = cap - (size_t)snprintf(end, sizeof end, ",... (%d nodes)%s", t->nodes, more);
  for (int node = 0; node < t->nodes; node++) {
    char one[16];
    size_t n = (size_t)snprintf(one, sizeof one, "%s%d", node ? "," : "", ranks_of(t, node));
    if (used + n >= room) {
      snprintf(out + used, cap - used, "%s", end);
      return;
    }
    memcpy(out + used, one, n);
    used += n;
  }
  snprintf(out + used, cap - used, "%s", more);
}
