/* What ranks should have by locality, on machines of known shapes (golden/topo, made by its shapes.py).  Expected values are
 * worked out by hand from the shapes. */
#include "check.h"
#include "topo/machine.h"
#include <stdlib.h>
#include <string.h>

enum { MOST = 8 };

typedef struct {
  const char *cpus, *numa;
  int gpu, nic;
  shoal_near gpu_near, nic_near;
} want;

static shoal_machine *load(const char *name)
{
  char path[512];
  shoal_machine *m;
  snprintf(path, sizeof path, "%s/golden/topo/%s.xml", SHOAL_TESTS, name);
  REQUIRE(shoal_machine_open(path, &m) == SHOAL_OK, "%s: %s", path, check_error());
  return m;
}

static void choose(const shoal_machine *m, int ranks, const shoal_facts *f, const char *visible, shoal_choice *c)
{
  const char *numa[MOST];
  for (int r = 0; r < ranks; r++) numa[r] = f[r].numa_list;
  REQUIRE(shoal_machine_choose(m, ranks, numa, visible, c) == SHOAL_OK, "%s", check_error());
}

/* Masks and devices of all ranks; no core belongs to two. */
static void shared(const char *name, int ranks, int cores, const want *w)
{
  shoal_machine *m = load(name);
  shoal_facts f[MOST];
  shoal_choice c[MOST];
  for (int r = 0; r < ranks; r++) f[r] = *shoal_machine_facts(m);
  CHECK_OK(shoal_machine_share(m, ranks, f));
  choose(m, ranks, f, NULL, c);
  for (int r = 0; r < ranks; r++) {
    CHECK_EQ(f[r].cores, cores, "%s, rank %d of %d", name, r, ranks);
    CHECK_STR(f[r].cpu_list, w[r].cpus, "%s, rank %d of %d", name, r, ranks);
    CHECK_STR(f[r].numa_list, w[r].numa, "%s, rank %d of %d", name, r, ranks);
    CHECK_EQ(c[r].gpu, w[r].gpu, "%s, rank %d of %d", name, r, ranks);
    CHECK_EQ(c[r].nic, w[r].nic, "%s, rank %d of %d", name, r, ranks);
    if (w[r].gpu >= 0) CHECK_EQ(c[r].gpu_near, w[r].gpu_near, "%s, rank %d of %d", name, r, ranks);
    if (w[r].nic >= 0) CHECK_EQ(c[r].nic_near, w[r].nic_near, "%s, rank %d of %d", name, r, ranks);
  }
  shoal_machine_close(m);
}

#define NUMA    SHOAL_NEAR_NUMA
#define SWITCH  SHOAL_NEAR_SWITCH
#define PACKAGE SHOAL_NEAR_PACKAGE

/* The cores of the rank's GPU first, then those of the nearest NUMA node that has no GPU. */
static void four_on_eight_nodes(void)
{
  shared("gpus-3-1-7-5", 4, 12,
         (want[]){ { "12-23,60-71", "2-3", 0, 0, NUMA, SWITCH },
                   { "0-11,48-59", "0-1", 1, 1, NUMA, SWITCH },
                   { "36-47,84-95", "6-7", 2, 2, NUMA, SWITCH },
                   { "24-35,72-83", "4-5", 3, 3, NUMA, SWITCH } });
  shared("gpus-0-2-4-6", 4, 16,
         (want[]){ { "0-15", "0-1", 0, 0, NUMA, NUMA },
                   { "16-31", "2-3", 1, 0, NUMA, PACKAGE },
                   { "32-47", "4-5", 2, 1, NUMA, NUMA },
                   { "48-63", "6-7", 3, 1, NUMA, PACKAGE } });
  /* two ranks: a GPU in each package, and all of the package's cores */
  shared("gpus-3-1-7-5", 2, 24,
         (want[]){ { "0-23,48-71", "0-3", 0, 0, NUMA, SWITCH }, { "24-47,72-95", "4-7", 2, 2, NUMA, SWITCH } });
}

static void two_in_a_node(void)
{
  shared("gpus-0-0-1-1", 4, 10,
         (want[]){ { "0-9,40-49", "0", 0, 0, NUMA, NUMA },
                   { "10-19,50-59", "0", 1, 0, NUMA, NUMA },
                   { "20-29,60-69", "1", 2, 1, NUMA, NUMA },
                   { "30-39,70-79", "1", 3, 1, NUMA, NUMA } });
  shared("gpus-eight", 8, 8,
         (want[]){ { "48-55", "3", 0, 0, NUMA, SWITCH },
                   { "56-63", "3", 1, 0, NUMA, SWITCH },
                   { "16-23", "1", 2, 1, NUMA, SWITCH },
                   { "24-31", "1", 3, 1, NUMA, SWITCH },
                   { "0-7", "0", 4, 2, NUMA, SWITCH },
                   { "8-15", "0", 5, 2, NUMA, SWITCH },
                   { "32-39", "2", 6, 3, NUMA, SWITCH },
                   { "40-47", "2", 7, 3, NUMA, SWITCH } });
  shared("gpus-eight", 4, 16,
         (want[]){ { "48-63", "3", 0, 0, NUMA, SWITCH },
                   { "16-31", "1", 2, 1, NUMA, SWITCH },
                   { "0-15", "0", 4, 2, NUMA, SWITCH },
                   { "32-47", "2", 6, 3, NUMA, SWITCH } });
}

/* More ranks than GPUs share them evenly; without GPUs ranks are spread over NUMA nodes, and cross them only if that gains much. */
static void uneven(void)
{
  shared("gpus-0-0-1-1", 6, 6,
         (want[]){ { "0-5,40-45", "0", 0, 0, NUMA, NUMA },
                   { "6-11,46-51", "0", 0, 0, NUMA, NUMA },
                   { "12-17,52-57", "0", 1, 0, NUMA, NUMA },
                   { "20-25,60-65", "1", 2, 1, NUMA, NUMA },
                   { "26-31,66-71", "1", 2, 1, NUMA, NUMA },
                   { "32-37,72-77", "1", 3, 1, NUMA, NUMA } });
  shared("two-numa", 3, 4,
         (want[]){ { "0-7", "0", -1, -1, 0, 0 }, { "8-15", "0", -1, -1, 0, 0 }, { "16-23", "1", -1, -1, 0, 0 } });
  shared("two-numa", 1, 16, (want[]){ { "0-31", "0-1", -1, -1, 0, 0 } });
}

/* Masks that are there already: devices follow them. */
static void given_masks(void)
{
  shoal_machine *m = load("gpus-eight");
  shoal_facts f[MOST];
  shoal_choice c[MOST];
  static const int gpus[] = { 4, 5, 2, 3, 6, 7, 0, 1 };
  for (int r = 0; r < 8; r++) {
    f[r] = *shoal_machine_facts(m);
    shoal_machine_cut(m, 8 * r, 8, &f[r]);
  }
  choose(m, 8, f, NULL, c);
  for (int r = 0; r < 8; r++) {
    CHECK_EQ(c[r].gpu, gpus[r], "rank %d", r);
    CHECK_EQ(c[r].gpu_near, SHOAL_NEAR_NUMA, "rank %d", r);
  }
  /* A rank with all cores leaves the near GPUs to those that have no others. */
  f[0] = *shoal_machine_facts(m);
  for (int r = 1; r < 4; r++) REQUIRE(shoal_machine_bind(m, "0xffff", &f[r]), "a mask");
  CHECK_STR(f[1].cpu_list, "0-15");
  choose(m, 3, f, "4,5,6", c);
  CHECK_EQ(c[0].gpu, 6, "the rank that may have any");
  CHECK_EQ(c[1].gpu + c[2].gpu, 9, "%d and %d", c[1].gpu, c[2].gpu);
  choose(m, 4, f, "4,5,6,0", c);
  CHECK_EQ(c[0].gpu_near, SHOAL_NEAR_NUMA);
  CHECK_EQ(c[3].gpu_near, SHOAL_NEAR_PACKAGE, "the third of two");
  choose(m, 2, f, "GPU-21", c);
  CHECK_EQ(c[0].gpu, 2, "by the beginning of a UUID, which two have");
  CHECK_EQ(c[1].gpu, 3, "by the beginning of a UUID, which two have");
  choose(m, 1, f, "", c);
  CHECK_EQ(c[0].gpu, -1, "none visible");
  CHECK_EQ(c[0].nic_near, SHOAL_NEAR_NUMA, "without a GPU near the cores");
  for (int r = 0; r < 4; r++) f[r] = *shoal_machine_facts(m);
  choose(m, 4, f, "", c);
  for (int r = 0; r < 4; r++) CHECK_EQ(c[r].nic, r, "of equally near interfaces one with fewest ranks");
  CHECK(!shoal_machine_bind(m, "0x0", f), "nothing is no mask");
  CHECK(!shoal_machine_bind(m, "x", f), "no number");
  shoal_machine_close(m);
}

int main(void)
{
  four_on_eight_nodes();
  two_in_a_node();
  uneven();
  given_masks();
  return check_done();
}
