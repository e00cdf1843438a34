/* Judgements of shoal doctor, from made-up measurements, and who measures with whom. */
#include "check.h"
#include "cli/doctor.h"
#include <stdlib.h>
#include <string.h>

enum { MOST = 40 };

/* Every pair once, or every neighbour on a ring once; nobody twice in a round, and both agree. */
static void pairs(void)
{
  for (int n = 2; n <= MOST; n++) {
    static int met[MOST][MOST];
    bool ring = n > SHOAL_DOCTOR_TABLE;
    memset(met, 0, sizeof met);
    for (int round = 0; round < shoal_doctor_rounds(n); round++)
      for (int i = 0; i < n; i++) {
        int peer = shoal_doctor_peer(n, round, i);
        if (peer < 0) continue;
        REQUIRE(peer < n, "%d of %d", peer, n);
        CHECK_EQ(shoal_doctor_peer(n, round, peer), i, "round %d of %d, member %d", round, n, i);
        CHECK_NE(peer, i, "round %d of %d", round, n);
        met[i][peer]++;
      }
    for (int i = 0; i < n; i++)
      for (int k = 0; k < n; k++) {
        bool near = (i + 1) % n == k || (k + 1) % n == i;
        CHECK_EQ(met[i][k], i != k && (!ring || near), "%d and %d of %d", i, k, n);
      }
  }
  CHECK_EQ(shoal_doctor_rounds(1), 0);
  CHECK_LE(shoal_doctor_rounds(MOST), 3, "a ring");
}

static shoal_topo *nodes(int n)
{
  static shoal_place places[MOST];
  static char hosts[MOST][16];
  static shoal_topo t;
  for (int i = 0; i < n; i++) {
    snprintf(hosts[i], sizeof hosts[i], "n%d", i + 1);
    places[i] = (shoal_place){ .host = hosts[i], .node = i, .local_size = 1 };
  }
  t = (shoal_topo){ .size = n, .nodes = n, .places = places };
  return &t;
}

/* "FAULT 2 text" of each finding. */
static const char *said(shoal_findings *f)
{
  static char out[2048];
  size_t n = 0;
  out[0] = '\0';
  for (size_t i = 0; i < f->n; i++)
    n += (size_t)snprintf(out + n, sizeof out - n, "%s %d %s\n",
                          f->at[i].verdict == SHOAL_FAULT  ? "FAULT"
                          : f->at[i].verdict == SHOAL_NOTE ? "note"
                                                           : "ok",
                          f->at[i].node, f->at[i].text);
  shoal_findings_free(f);
  return out;
}

static const char *links(int n, int64_t *best, double rated, bool told)
{
  static int64_t load[MOST] = { 300, 100, 101, 0 };
  int64_t latency[MOST];
  shoal_links l = { .n = n, .best = best, .latency = latency, .load = load };
  shoal_findings f = { .n = 0 };
  for (int i = 0; i < n; i++) latency[i] = 30000;
  shoal_doctor_judge_links(&l, nodes(n), rated, told, &f);
  return said(&f);
}

static void slow_links(void)
{
  int64_t mb[] = { 24000000, 25000000, 2500000, 23000000 };
  const char *text = links(4, mb, 0, false);
  CHECK_HAS(text, "FAULT 2 no more than 2.5 MB/s in both directions with any other node, where others have 24");
  CHECK_LACKS(text, "FAULT 0");
  CHECK_LACKS(text, "ok");
  mb[2] = 6000000; /* with more to do than its cores can */
  CHECK_STR(links(4, mb, 0, false),
            "note 2 no more than 6 MB/s in both directions with any other node, where others have 24: it has "
            "more to do than its cores can, so measure again when it is idle\n");
  mb[1] = 6000000;
  CHECK_HAS(links(4, mb, 0, false), "FAULT 1 no more than 6 MB/s", "its cores can do that");
  mb[1] = 25000000;
  mb[2] = 13000000;
  CHECK_STR(
      links(4, mb, 0, false),
      "ok -1 between nodes 24 MB/s, 30 us one way; what the hardware should reach is not known, --expect says it\n");
  CHECK_STR(links(4, mb, 30e6, false), "ok -1 between nodes 24 MB/s, 30 us one way\n");
  CHECK_HAS(links(4, mb, 100e6, false), "note -1 24 MB/s between nodes, of 100");
  CHECK_HAS(links(4, mb, 1000e6, false),
            "FAULT -1 24 MB/s between nodes, and their fastest interface is made for 1000");
  CHECK_HAS(links(4, mb, 30e6, true), "FAULT -1 24 MB/s between nodes, and --expect says 30");
  CHECK_HAS(links(4, mb, 25e6, true), "ok -1");
}

static const char *clocks(int n, const double *ahead)
{
  shoal_findings f = { .n = 0 };
  shoal_doctor_judge_clocks(ahead, nodes(n), &f);
  return said(&f);
}

static void wrong_clocks(void)
{
  CHECK_STR(clocks(3, (double[]){ 0, 0.004, -0.002 }), "ok -1 within 4 ms of each other\n");
  CHECK_STR(clocks(4, (double[]){ 0, 60, 60.01, 59.99 }),
            "FAULT 0 its clock is 60 s behind the others': set it by NTP (chronyc tracking)\n",
            "rank 0's own is the odd one");
  CHECK_HAS(clocks(3, (double[]){ 0, 0, 0.5 }), "note 2 its clock is 0.5 s ahead of");
}

static void odd_versions(void)
{
  shoal_findings f = { .n = 0 };
  shoal_str out = { 0 };
  shoal_topo *t = nodes(4);
  shoal_doctor_judge_equal("HDF5", (const char *const[]){ "1.10", "1.10", "1.12", "1.10" }, t, SHOAL_FAULT, &f);
  shoal_doctor_judge_equal("MPI", (const char *const[]){ "4", "4", "4", "4" }, t, SHOAL_FAULT, &f);
  shoal_findings_excluded(&f, t, &out);
  CHECK_STR(out.text, "n3");
  shoal_str_free(&out);
  CHECK_STR(said(&f), "FAULT 2 HDF5 is 1.12 on n3; n1 and 2 more have 1.10\n");
  shoal_doctor_judge_equal("HDF5", (const char *const[]){ "1.10", "1.12", "1.12", "1.10" }, t, SHOAL_FAULT, &f);
  CHECK_EQ(f.at[0].node, -1, "two against two");
  shoal_findings_free(&f);
}

/* What all nodes have is about none of them, and then none is to be left out. */
static void gathered(void)
{
  shoal_world *w;
  shoal_findings f = { .n = 0 };
  shoal_str out = { 0 };
  REQUIRE(shoal_world_open(NULL, &w) == SHOAL_OK, "%s", check_error());
  for (int node = 0; node < 3; node++) {
    shoal_find(&f, "files", SHOAL_FAULT, node, "the disk is full");
    shoal_find(&f, "files", SHOAL_FAULT, node, "rank %d failed", node);
    if (node < 2) shoal_find(&f, "masks", SHOAL_NOTE, node, "narrow");
    if (node == 1) shoal_find(&f, "masks", SHOAL_NOTE, node, "narrow");
  }
  REQUIRE(shoal_findings_gather(shoal_world_control(w), 3, &f) == SHOAL_OK, "%s", check_error());
  CHECK_EQ(shoal_findings_count(&f, SHOAL_FAULT), 4);
  CHECK_EQ(shoal_findings_count(&f, SHOAL_NOTE), 2);
  shoal_findings_excluded(&f, nodes(3), &out);
  CHECK_STR(out.text ? out.text : "", "", "all have a fault");
  shoal_findings_excluded(&f, nodes(4), &out);
  CHECK_STR(out.text, "n1,n2,n3");
  shoal_str_free(&out);
  CHECK_STR(said(&f), "FAULT -1 the disk is full\nFAULT 0 rank 0 failed\nnote 0 narrow\nFAULT 1 rank 1 failed\nnote 1 "
                      "narrow\nFAULT 2 rank 2 failed\n");
  shoal_world_close(w);
}

int main(void)
{
  pairs();
  slow_links();
  wrong_clocks();
  odd_versions();
  gathered();
  return check_done();
}
