/* Placement tables against layouts worked out by hand: by block, cyclic, uneven, pretended. */
#include "check.h"
#include "topo/topo.h"

enum { MOST = 32 };
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
    snprintf(all[r].numa_list, sizeof all[r].numa_list, "1");
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
  CHECK_STR(got, want, "%s as %s", hosts, pretend ? pretend : "is");
  CHECK_EQ(t->nodes, nodes, "%s as %s", hosts, pretend ? pretend : "is");
  CHECK_EQ(t->pretended, pretend != NULL);
  int members[MOST] = { 0 };
  for (int r = 0; r < t->size; r++) members[t->places[r].node]++;
  for (int r = 0; r < t->size; r++)
    CHECK_EQ(t->places[r].local_size, members[t->places[r].node], "local size of %d", r);
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
  check_layout("aaaa", "1x4", "00 01 02 03", 1);
  check_layout("aabb", "1,1,2", "00 10 20 21", 3); /* two of three nodes on one host */
  check_layout("abab", "4x1", "00 10 20 30", 4);
  check_layout("aaa", "3", "00 01 02", 1);
  check_layout("aaa", "3x1", "00 10 20", 3);
  shoal_topo_destroy(NULL);
}

/* What is equal is held once. */
static void shared(void)
{
  shoal_topo *t = make("abab", NULL);
  CHECK_EQ(t->n_cores, 1);
  CHECK(t->places[0].host == t->places[2].host, "a name per node");
  CHECK_STR(t->places[3].host, "nodeb");
  shoal_topo_set_threads(t, 7);
  for (int r = 0; r < 4; r++) CHECK_EQ(t->places[r].on->threads, 7);
  shoal_topo_destroy(t);
}

static void check_threads(const char *what, const char *pretend, int n, const int *want)
{
  shoal_topo *t = NULL;
  REQUIRE(shoal_topo_create(all, n, pretend, &t) == SHOAL_OK, "%s", what);
  for (int r = 0; r < n; r++) CHECK_EQ(t->places[r].on->threads, want[r], "%s: rank %d", what, r);
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

static void refuse_on(const char *hosts, const char *pretend, const char *words)
{
  shoal_topo *t = NULL;
  int n = make_facts(hosts);
  CHECK_STATUS(shoal_topo_create(all, n, pretend, &t), SHOAL_ERR_USAGE, "\"%s\" was taken", pretend);
  CHECK(!t, "\"%s\" was taken", pretend);
  CHECK_HAS(check_error(), words, "\"%s\"", pretend);
}

static void refuse(const char *pretend, const char *words)
{
  refuse_on("aaaa", pretend, words);
}

static void refusals(void)
{
  refuse_on("abab", "1x4", "puts rank 0 (host nodea) and rank 1 (host nodeb) on one node");
  refuse_on("aabb", "1,2,1", "puts rank 1 (host nodea) and rank 2 (host nodeb) on one node");
  refuse_on("abab", "2x3", "is for 6 ranks");
  refuse("2x3", "is for 6 ranks, this run has 4");
  refuse("1,2", "is for 3 ranks, this run has 4");
  refuse("1,2,2", "is for 5 ranks");
  refuse("999999999x999999999", "this run has 4");
  static const char *const malformed[] = { "",    "x",   "2x",  "x2",   "2x2x1", "2,,2", ",4",         "4,",
                                           "0x4", "4x0", "4,0", "-1,5", "2 2",   "2y2",  "9999999999", "2x2 " };
  for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) refuse(malformed[i], "neither NODESxRANKS");
}

static void check_text(const char *what, shoal_str *s, const char *want)
{
  CHECK_STR(s->text, want, "%s", what);
  shoal_str_clear(s);
}

static void printing(void)
{
  shoal_str s = { 0 };
  shoal_topo *t = make("ab", NULL);
  static const char rows[] = "  rank   node  local  host       pid  cores  threads  numa  cpus\n"
                             "     0      0      0  nodea      100      4        4  1     0-3\n"
                             "     1      1      0  nodeb      101      4        4  1     0-3\n";
  char want[512];
  snprintf(want, sizeof want, "2 ranks on 2 nodes\n%s", rows);
  shoal_topo_print(t, &s);
  check_text("table", &s, want);
  shoal_topo_print_short(t, &s);
  check_text("short table of few", &s, want);
  shoal_json j = { .lines = 2 };
  shoal_topo_put_json(t, &j, NULL);
  check_text("json", &j.text,
             "{\n  \"size\": 2,\n  \"nodes\": 2,\n  \"pretended\": false,\n  \"applied\": true,\n  \"places\": [\n"
             "    {\"rank\": 0, \"node\": 0, \"local_rank\": 0, \"local_size\": 1, \"host\": \"nodea\", \"pid\": 100, "
             "\"cores\": 4, \"threads\": 4, \"cpus\": \"0-3\", \"numa\": \"1\"},\n"
             "    {\"rank\": 1, \"node\": 1, \"local_rank\": 0, \"local_size\": 1, \"host\": \"nodeb\", \"pid\": 101, "
             "\"cores\": 4, \"threads\": 4, \"cpus\": \"0-3\", \"numa\": \"1\"}\n  ]\n}\n");
  shoal_str_free(&j.text);
  t->planned = true;
  t->places[1].pid = 0;
  shoal_topo_print(t, &s);
  CHECK(strncmp(s.text, "2 ranks on 2 nodes, planned, not applied\n", 41) == 0, "plan:\n%s", s.text);
  CHECK_HAS(s.text, "nodeb        -");
  shoal_str_free(&s);
  shoal_topo_destroy(t);
}

/* `sees` and `numa` per rank: GPUs as letters in the rank's own order, a and b at NUMA node 0, others at 1.  `want`: the GPU of each
 * rank, "-" for none, and the ranks that have it. */
static void check_gpus(const char *what, const char *hosts, const char *const *sees, const char *const *numa,
                       bool one_each, const char *want)
{
  char got[4 * MOST] = "";
  shoal_topo *t = make(hosts, NULL);
  for (int r = 0; r < t->size; r++) {
    snprintf(all[r].numa_list, sizeof all[r].numa_list, "%s", numa[r]);
    for (const char *c = sees[r]; *c; c++) {
      shoal_gpu *d = &all[r].gpu[all[r].gpus++];
      snprintf(d->id, sizeof d->id, "GPU-%c", *c);
      d->numa = *c <= 'b' ? 0 : 1;
    }
  }
  CHECK_OK(shoal_topo_assign_gpus(all, one_each, t));
  for (int r = 0; r < t->size; r++) {
    const shoal_place *p = &t->places[r];
    char letter = p->gpu ? p->gpu->id[4] : '-';
    snprintf(got + strlen(got), sizeof got - strlen(got), "%c%d ", letter, p->gpu ? p->gpu->ranks : 0);
    if (letter != '-') CHECK_EQ(sees[r][p->device], letter, "%s: number at rank %d", what, r);
  }
  got[strlen(got) - 1] = 0;
  CHECK_STR(got, want, "%s", what);
  shoal_topo_destroy(t);
}

static void gpus(void)
{
  static const char *const four[] = { "abcd", "abcd", "abcd", "abcd" }, *const own[] = { "a", "b", "c", "d" },
                           *const turned[] = { "dcba", "dcba", "dcba", "dcba" }, *const one[] = { "a", "a", "a", "a" },
                           *const some[] = { "ab", "ab", "", "ab" }, *const two[] = { "ab", "ab", "ab", "ab" },
                           *const last[] = { "ab", "ab", "ab", "a" };
  static const char *const near[] = { "0", "1", "1", "0" }, *const any[] = { "0-1", "0-1", "0-1", "0-1" },
                           *const unknown[] = { "", "", "", "" }, *const second[] = { "1", "1", "1", "0" };
  check_gpus("in order", "aaaa", four, any, false, "a1 b1 c1 d1");
  check_gpus("two of four", "aa", four, any, false, "a1 c1");
  check_gpus("by NUMA node", "aaaa", four, near, false, "a1 c1 d1 b1");
  check_gpus("far, rather than shared", "aaa", four, second, false, "c1 d1 a1");
  check_gpus("each sees its own", "aaaa", own, unknown, true, "a1 b1 c1 d1");
  check_gpus("in its own numbering", "aaaa", turned, unknown, false, "d1 c1 b1 a1");
  check_gpus("all on one", "aaaa", one, unknown, false, "a4 a4 a4 a4");
  check_gpus("two by two", "aaaa", two, second, false, "a2 a2 b2 b2");
  check_gpus("the last sees less", "aa", last + 2, unknown, true, "b1 a1");
  check_gpus("of two hosts", "abab", two, unknown, true, "a1 a1 b1 b1");
  check_gpus("one has none", "aaaa", some, unknown, false, "a2 a2 -0 b1");
  check_gpus("one each, or none", "aaaa", two, unknown, true, "-0 -0 -0 -0");
  check_gpus("one each, and one has none", "abcd", some, unknown, true, "-0 -0 -0 -0");
}

static void gpus_shown(void)
{
  shoal_str s = { 0 };
  shoal_topo *t = make("ab", NULL);
  t->places[1].gpu = &(shoal_gpu_use){ .id = "GPU-12", .ranks = 1 };
  shoal_topo_print(t, &s);
  CHECK_HAS(s.text, "  threads  device  numa  cpus\n");
  CHECK_HAS(s.text, "        4          1     0-3\n");
  CHECK_HAS(s.text, "        4  GPU-12  1     0-3\n");
  shoal_str_free(&s);
  shoal_json j = { .lines = 2 };
  shoal_topo_put_json(t, &j, NULL);
  CHECK_HAS(j.text.text, "\"numa\": \"1\", \"device\": \"GPU-12\"}");
  shoal_str_free(&j.text);
  shoal_topo_destroy(t);
}

/* Above 16 ranks: a row for each run of nodes alike, here a-d, e (one rank fewer) and f (other cores). */
static void many(void)
{
  shoal_str s = { 0 };
  shoal_topo *t = NULL;
  int n = make_facts("abcdefabcdefabcdefabcdf");
  all[5].cores = 2;
  REQUIRE(shoal_topo_create(all, n, NULL, &t) == SHOAL_OK, "many");
  shoal_topo_print_short(t, &s);
  check_text("short", &s,
             "23 ranks on 6 nodes\n"
             "       node  ranks per node      cores    threads  hosts                     ranks\n"
             "        0-3               4          4          1  nodea .. noded            0-3,6-9,12-15,18-21\n"
             "          4               3          4          1  nodee                     4,10,16\n"
             "          5               4        2-4          1  nodef                     5,11,17,22\n");
  shoal_topo_print_groups(t, &s);
  check_text("groups", &s,
             "group node 0: 0 6 12 18\ngroup node 1: 1 7 13 19\ngroup node 2: 2 8 14 20\ngroup node 3: 3 9 15 21\n"
             "group node 4: 4 10 16\ngroup node 5: 5 11 17 22\n"
             "group across 0: 0 1 2 3 4 5\ngroup across 1: 6 7 8 9 10 11\ngroup across 2: 12 13 14 15 16 17\n");
  shoal_str_free(&s);
  shoal_topo_destroy(t);
}

/* Equal for the same ranks on the same nodes, whatever those are called; and what JSON tells is the same. */
static void check_hash(const char *hosts, const char *pretend, const char *want, const char *text)
{
  char hash[SHOAL_LAYOUT_HASH], read[SHOAL_LAYOUT_HASH] = "", words[64];
  shoal_topo *t = make(hosts, pretend);
  shoal_json j = { 0 };
  shoal_topo_layout_hash(t, hash);
  CHECK_STR(hash, want, "%s", hosts);
  shoal_topo_put_json(t, &j, NULL);
  CHECK_OK(shoal_topo_read_layout(j.text.text, t->size, read));
  CHECK_STR(hash, read, "%s", hosts);
  CHECK_STATUS(shoal_topo_read_layout(j.text.text, t->size + 1, read), SHOAL_ERR_IO, "%s: another number of ranks",
               hosts);
  shoal_str_free(&j.text);
  shoal_topo_layout_text(t, words, sizeof words);
  CHECK_STR(words, text, "%s", hosts);
  shoal_topo_destroy(t);
}

/* 300 nodes of one rank each, but node `pair` and the next, if any, which share what they have. */
static void many_nodes(int pair, char hash[SHOAL_LAYOUT_HASH], char text[64])
{
  enum { NODES = 300 };
  shoal_place places[NODES];
  for (int r = 0; r < NODES; r++) places[r].node = pair >= 0 && r > pair ? r - 1 : r;
  shoal_topo t = { .size = NODES, .nodes = NODES - (pair >= 0), .places = places };
  shoal_topo_layout_hash(&t, hash);
  shoal_topo_layout_text(&t, text, 64);
}

static void hashes(void)
{
  /* worked out in Python: FNV-1a of the node numbers, four bytes each */
  check_hash("a", NULL, "4d25767f9dce13f5", "1");
  check_hash("aabb", NULL, "092004b8ac45d6d5", "2,2");
  check_hash("yyxx", NULL, "092004b8ac45d6d5", "2,2");
  check_hash("aaaa", "2x2", "092004b8ac45d6d5", "2,2");
  check_hash("abab", NULL, "32d748215c66e845", "2,2 interleaved");
  char all_apart[SHOAL_LAYOUT_HASH], one[SHOAL_LAYOUT_HASH], other[SHOAL_LAYOUT_HASH], text[64], more[64];
  many_nodes(-1, all_apart, text);
  CHECK_STR(all_apart, "ed6a8b24f7b464f1");
  CHECK(strstr(text, "1,1,1,1") == text, "%s", text);
  CHECK_HAS(text, ",... (300 nodes)");
  many_nodes(200, one, text);
  many_nodes(201, other, more);
  CHECK_STR(text, more);
  CHECK_HAS(text, "(299 nodes)");
  CHECK(strcmp(one, other) != 0, "%s, %s, %s", all_apart, one, other);
  CHECK(strcmp(one, all_apart) != 0, "%s, %s, %s", all_apart, one, other);
  static const char *const bad[] = { "",
                                     "[]",
                                     "{}",
                                     "{\"places\": [{\"rank\": 0}]}",
                                     "{\"places\": [{\"rank\": 0, \"node\": 1}]}",
                                     "{\"places\": [{\"rank\": 1, \"node\": 0}]}",
                                     "{\"places\": [{\"rank\": 0, \"node\": \"0\"}]}",
                                     "{\"places\": [{\"rank\": 0, \"node\": -1}]}" };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    CHECK_STATUS(shoal_topo_read_layout(bad[i], 1, one), SHOAL_ERR_IO, "%s", bad[i]);
}

int main(void)
{
  layouts();
  hashes();
  shared();
  threads();
  refusals();
  printing();
  gpus();
  gpus_shown();
  many();
  return check_done();
}
