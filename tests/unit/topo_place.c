/* Placement tables against layouts worked out by hand: by block, cyclic, uneven, pretended. */
#include "check.h"
#include "topo/topo.h"

enum { MOST = 16 };
static shoal_facts all[MOST];

/* hosts: one letter per rank; cores and mask alike for all unless a test changes them. */
static int make_facts(const char *hosts)
{
  int n = (int)strlen(hosts);
  for (int r = 0; r < n; r++) {
    all[r] = (shoal_facts){ .pid = 100 + r, .cores = 4, .pus = 8, .mask_hash = 77 };
    snprintf(all[r].host, sizeof all[r].host, "node%c", hosts[r]);
    snprintf(all[r].node_id, sizeof all[r].node_id, "node%c/boot", hosts[r]);
    snprintf(all[r].cpu_list, sizeof all[r].cpu_list, "0-3");
  }
  return n;
}

static shoal_topo *make(const char *hosts, const char *pretend)
{
  shoal_topo *t = NULL;
  REQUIRE(shoal_topo_create(all, make_facts(hosts), pretend, &t) == SHOAL_OK, "%s %s", hosts, pretend ? pretend : "");
  return t;
}

/* want: per rank node and local rank as digits, "00 01 10 11". */
static void check_layout(const char *hosts, const char *pretend, const char *want, int nodes)
{
  char got[32 * MOST] = "";
  shoal_topo *t = make(hosts, pretend);
  for (int r = 0; r < t->size; r++)
    snprintf(got + strlen(got), sizeof got - strlen(got), "%d%d ", t->places[r].node, t->places[r].local_rank);
  got[strlen(got) - 1] = 0;
  CHECK(strcmp(got, want) == 0 && t->nodes == nodes, "%s as %s: %s on %d nodes, expected %s", hosts,
        pretend ? pretend : "is", got, t->nodes, want);
  CHECK(t->pretended == (pretend != NULL), "pretended");
  int members[MOST] = { 0 };
  for (int r = 0; r < t->size; r++) members[t->places[r].node]++;
  for (int r = 0; r < t->size; r++) CHECK(t->places[r].local_size == members[t->places[r].node], "local size of %d", r);
  shoal_topo_destroy(t);
}

static void layouts(void)
{
  check_layout("a", NULL, "00", 1);
  check_layout("aabb", NULL, "00 01 10 11", 2);
  check_layout("abab", NULL, "00 10 01 11", 2);
  check_layout("bbabccc", NULL, "00 01 10 02 20 21 22", 3);
  check_layout("aaaa", "2x2", "00 01 10 11", 2);
  check_layout("aaaaaaaa", "2,1,2,3", "00 01 10 20 21 30 31 32", 4);
  check_layout("abab", "1x4", "00 01 02 03", 1);
  check_layout("aaa", "3", "00 01 02", 1);
  check_layout("aaa", "3x1", "00 10 20", 3);
  shoal_topo_destroy(NULL);
}

static void links(void)
{
  shoal_topo *t = make("abab", NULL);
  CHECK(shoal_topo_link(t, 1, 1) == SHOAL_LINK_SELF, "self");
  CHECK(shoal_topo_link(t, 0, 2) == SHOAL_LINK_NODE && shoal_topo_link(t, 3, 1) == SHOAL_LINK_NODE, "node");
  CHECK(shoal_topo_link(t, 0, 1) == SHOAL_LINK_BETWEEN && shoal_topo_link(t, 2, 3) == SHOAL_LINK_BETWEEN, "between");
  shoal_topo_destroy(t);
}

static void check_threads(const char *what, const char *pretend, int n, const int *want)
{
  shoal_topo *t = NULL;
  REQUIRE(shoal_topo_create(all, n, pretend, &t) == SHOAL_OK, "%s", what);
  for (int r = 0; r < n; r++)
    CHECK(t->places[r].threads == want[r], "%s: rank %d has %d threads, %d expected", what, r, t->places[r].threads,
          want[r]);
  shoal_topo_destroy(t);
}

static void threads(void)
{
  int n = make_facts("aab");
  check_threads("two share a mask, one has its own node", NULL, n, (int[]){ 2, 2, 4 });
  all[1].mask_hash = 78;
  all[1].cores = 3;
  check_threads("different masks on a node are not shared", NULL, n, (int[]){ 4, 3, 4 });
  n = make_facts("aaaaaa");
  check_threads("six ranks on four cores", NULL, n, (int[]){ 1, 1, 1, 1, 1, 1 });
  n = make_facts("aaa");
  check_threads("an odd share is rounded down", NULL, n, (int[]){ 1, 1, 1 });
  n = make_facts("aaaa");
  check_threads("pretending makes no cores", "2x2", n, (int[]){ 1, 1, 1, 1 });
}

static void refuse(const char *pretend, const char *words)
{
  shoal_topo *t = NULL;
  int n = make_facts("aaaa");
  shoal_clear_error();
  shoal_quiet_errors(1);
  CHECK(shoal_topo_create(all, n, pretend, &t) == SHOAL_ERR_USAGE && !t, "\"%s\" was taken", pretend);
  shoal_quiet_errors(-1);
  CHECK(strstr(shoal_first_error(), words), "\"%s\": said \"%s\"", pretend, shoal_first_error());
}

static void refusals(void)
{
  refuse("2x3", "is for 6 ranks, this run has 4");
  refuse("1,2", "is for 3 ranks, this run has 4");
  refuse("1,2,2", "is for 5 ranks");
  refuse("999999999x999999999", "this run has 4");
  static const char *const malformed[] = { "",    "x",   "2x",  "x2",   "2x2x1", "2,,2", ",4",         "4,",
                                           "0x4", "4x0", "4,0", "-1,5", "2 2",   "2y2",  "9999999999", "2x2 " };
  for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) refuse(malformed[i], "neither NODESxRANKS");
}

static void printing(void)
{
  shoal_str s = { 0 };
  shoal_topo *t = make("ab", NULL);
  shoal_topo_print(t, &s);
  CHECK(strcmp(s.text, "2 ranks on 2 nodes\n"
                       "  rank   node  local  host       pid  cores  threads  cpus\n"
                       "     0      0      0  nodea      100      4        4  0-3\n"
                       "     1      1      0  nodeb      101      4        4  0-3\n") == 0,
        "table:\n%s", s.text);
  shoal_str_clear(&s);
  shoal_topo_print_json(t, &s);
  CHECK(strcmp(s.text,
               "{\"size\": 2, \"nodes\": 2, \"pretended\": false, \"places\": [\n"
               "  {\"rank\": 0, \"node\": 0, \"local_rank\": 0, \"local_size\": 1, \"host\": \"nodea\", \"pid\": 100, "
               "\"cores\": 4, \"threads\": 4, \"cpus\": \"0-3\"},\n"
               "  {\"rank\": 1, \"node\": 1, \"local_rank\": 0, \"local_size\": 1, \"host\": \"nodeb\", \"pid\": 101, "
               "\"cores\": 4, \"threads\": 4, \"cpus\": \"0-3\"}\n]}\n") == 0,
        "json:\n%s", s.text);
  shoal_str_free(&s);
  shoal_topo_destroy(t);
}

int main(void)
{
  layouts();
  links();
  threads();
  refusals();
  printing();
  return check_done();
}
