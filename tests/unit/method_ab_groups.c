/* Who trains which factor with whom: the examples of docs/methods/ab.md, other placements, and layouts that cannot work. */
#include "base/mem.h"
#include "check.h"
#include "method/ab/ab.h"

/* Nodes as a string of digits, one per rank; groups as "0123|4567||89..": || between A and B. */
static void print(const shoal_ab_groups *g, char *out)
{
  for (int i = 0; i < g->groups; i++) {
    if (i > 0) *out++ = '|';
    if (i == g->a_groups) *out++ = '|';
    for (int k = g->first[i]; k < g->first[i + 1]; k++) *out++ = "0123456789abcdef"[g->rank[k]];
  }
  *out = 0;
}

static void check_groups(const char *nodes, int64_t ranks, bool only_b, const char *want)
{
  int node[16], size = (int)strlen(nodes);
  shoal_ab_groups g;
  for (int i = 0; i < size; i++) node[i] = nodes[i] - '0';
  shoal_status st = shoal_ab_groups_make(node, size, ranks, only_b, &g);
  CHECK_EQ(st == SHOAL_OK, want != NULL, "%s by %d: %s", nodes, (int)ranks, want ? want : "refused");
  if (st != SHOAL_OK) {
    CHECK_STATUS(st, SHOAL_ERR_USAGE, "%s by %d", nodes, (int)ranks);
    return;
  }
  char text[64];
  print(&g, text);
  CHECK_STR(text, want, "%s by %d", nodes, (int)ranks);
  for (int i = 0; i < g.groups; i++)
    for (int k = g.first[i]; k < g.first[i + 1]; k++) {
      CHECK_EQ(shoal_ab_group_of(&g, g.rank[k]), i, "rank %d", g.rank[k]);
      CHECK_EQ(shoal_ab_trains_a(&g, i), i < g.a_groups, "rank %d", g.rank[k]);
    }
  shoal_ab_groups_free(&g);
}

int main(void)
{
  /* the examples: p = 16, s = 4 and p = 8, s = 4 */
  check_groups("0000111122223333", 4, false, "0123|4567||89ab|cdef");
  check_groups("00001111", 4, false, "0123||4567");
  /* left-over ranks enlarge the first groups */
  check_groups("00000", 2, false, "012||34");
  check_groups("00000000", 3, false, "0123||4567");
  check_groups("0000000", 2, false, "012||34|56");
  check_groups("000", 1, false, "0||1|2");
  /* halves; only-b */
  check_groups("0011", SHOAL_AB_HALVES, false, "01||23");
  check_groups("000", SHOAL_AB_HALVES, false, "01||2");
  check_groups("0011", SHOAL_AB_HALVES, true, "|0123");
  check_groups("0011", SHOAL_AB_AUTO, true, "|0123");
  check_groups("0011", 2, true, "|01|23");
  check_groups("0", SHOAL_AB_AUTO, true, "|0");
  /* by default a node is a group; on one node two halves are */
  check_groups("00112233", SHOAL_AB_AUTO, false, "01|23||45|67");
  check_groups("0011", SHOAL_AB_AUTO, false, "01||23");
  check_groups("0000", SHOAL_AB_AUTO, false, "01||23");
  check_groups("00", SHOAL_AB_AUTO, false, "0||1");
  check_groups("000112", SHOAL_AB_AUTO, false, NULL); /* 3 || 2 | 1 */
  check_groups("00011", SHOAL_AB_AUTO, false, "012||34");
  check_groups("0001122", SHOAL_AB_AUTO, false, "012||34|56");
  /* ranks dealt to nodes in turn: groups are nodes all the same */
  check_groups("0101", SHOAL_AB_AUTO, false, "02||13");
  check_groups("01010101", 2, false, "02|46||13|57");
  check_groups("0120", SHOAL_AB_AUTO, false, "03||1|2");
  /* what cannot work */
  check_groups("00112", SHOAL_AB_AUTO, false, NULL); /* 2 || 2 | 1 */
  check_groups("0000", 4, false, NULL);
  check_groups("0000", 3, false, NULL);
  check_groups("0", SHOAL_AB_AUTO, false, NULL);
  check_groups("0", SHOAL_AB_HALVES, false, NULL);
  check_groups("00", 3, false, NULL);
  check_groups("00", -2, false, NULL);
  check_groups("00000", 2, true, NULL); /* 3 and 2 that both train B */
  check_groups("0000000", 3, false, "0123||456");
  check_groups("000000000", 2, false, NULL); /* 3 | 2 || 2 | 2 */
  return check_done();
}
