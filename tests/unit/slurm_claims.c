/* Claims of an eight-rank step on four nodes, consistent ones and each kind of contradiction, against the table of
 * hosts.  Nothing is started: environments are files, PMIx is what a test writes into the claims. */
#include "base/mem.h"
#include "check.h"
#include "slurm/claims.h"
#include <stdlib.h>
#include <unistd.h>

enum { RANKS = 8 };
static shoal_facts facts[RANKS];
static shoal_claims claims[RANKS];

typedef struct {
  const char *hosts; /* a digit per rank: host n1, n2, ... */
  const char *counts;
} layout;
static const layout block = { "11223344", "2(x4)" }, cyclic = { "12341234", "2(x4)" },
                    uneven = { "12341344", "2,1,2,3" };

static shoal_claims read_claims(const char *text, const char *host)
{
  shoal_claims c;
  shoal_env *e = NULL;
  char path[] = "/tmp/shoal-claims-XXXXXX";
  int fd = mkstemp(path);
  REQUIRE(fd >= 0, "a file");
  REQUIRE(write(fd, text, strlen(text)) == (ssize_t)strlen(text), "a file");
  close(fd);
  REQUIRE(shoal_env_read(path, &e) == SHOAL_OK, "claims");
  REQUIRE(shoal_claims_read(e, host, &c) == SHOAL_OK, "claims");
  unlink(path);
  shoal_env_destroy(e);
  return c;
}

static int before(const layout *l, int rank, bool other)
{
  int n = 0;
  for (int r = 0; r < (other ? RANKS : rank); r++) n += l->hosts[r] == l->hosts[rank];
  return n;
}

/* What a rank of such a step finds, as srun --mpi=pmix sets it. */
static void true_claims(const layout *l, const char *domain)
{
  for (int r = 0; r < RANKS; r++) {
    char text[1024], host[SHOAL_HOST_MAX];
    int node = l->hosts[r] - '1', local = before(l, r, false);
    snprintf(host, sizeof host, "n%c%s", l->hosts[r], domain);
    snprintf(
        text, sizeof text,
        "PMIX_NAMESPACE=slurm.pmix.1.0\nPMIX_RANK=%d\nSLURM_STEP_NUM_TASKS=8\nSLURM_STEP_NUM_NODES=4\nSLURM_PROCID=%d\n"
        "SLURM_STEP_NODELIST=n[1-4]\nSLURM_STEP_TASKS_PER_NODE=%s\nSLURM_NODEID=%d\nSLURM_LOCALID=%d\n"
        "SLURMD_NODENAME=n%c\n",
        r, r, l->counts, node, local, l->hosts[r]);
    claims[r] = read_claims(text, host);
    int32_t *pmix = claims[r].by[SHOAL_SOURCE_PMIX].number;
    CHECK_EQ(pmix[SHOAL_CLAIM_RANK], r, "rank of PMIx");
    pmix[SHOAL_CLAIM_RANKS] = RANKS;
    pmix[SHOAL_CLAIM_NODES] = 4;
    pmix[SHOAL_CLAIM_NODE] = node + 3; /* a server may count its own host too */
    pmix[SHOAL_CLAIM_LOCAL_RANKS] = before(l, r, true);
    pmix[SHOAL_CLAIM_LOCAL_RANK] = local;
    snprintf(claims[r].by[SHOAL_SOURCE_PMIX].host, SHOAL_HOST_MAX, "n%c", l->hosts[r]);
    facts[r] = (shoal_facts){ .pid = 100 + r, .cores = 1, .pus = 1 };
    snprintf(facts[r].host, sizeof facts[r].host, "%s", host);
    snprintf(facts[r].node_id, sizeof facts[r].node_id, "%.40s/boot", host);
  }
}

/* words NULL: nothing is wrong. */
static void compare(const char *what, const char *words, const char *more)
{
  shoal_topo *t = NULL;
  REQUIRE(shoal_topo_create(facts, RANKS, NULL, &t) == SHOAL_OK, "topology");
  shoal_status st = shoal_claims_compare(claims, t, "Some MPI 1.0");
  const char *said = check_error();
  if (words) {
    CHECK_STATUS(st, SHOAL_ERR_WORLD, "%s", what);
    CHECK_HAS(said, words, "%s", what);
    CHECK_HAS(said, more, "%s", what);
    CHECK_HAS(said, "srun --mpi=pmix", "%s", what);
    CHECK_HAS(said, "Some MPI 1.0", "%s", what);
  } else
    CHECK_OK(st, "%s: said \"%s\"", what, said);
  shoal_topo_destroy(t);
}

static void truths(void)
{
  static const layout *const layouts[] = { &block, &cyclic, &uneven };
  for (size_t i = 0; i < SHOAL_COUNT(layouts); i++)
    for (int full = 0; full < 2; full++) {
      true_claims(layouts[i], full ? ".site.org" : "");
      compare(layouts[i]->hosts, NULL, "");
      CHECK_EQ(claims[7].by[SHOAL_SOURCE_SLURM].number[SHOAL_CLAIM_LOCAL_RANKS], before(layouts[i], 7, true),
               "tasks here");
    }
  /* What is not set contradicts nothing. */
  for (int source = 0; source < SHOAL_SOURCE_COUNT; source++)
    for (int kind = 0; kind < SHOAL_CLAIM_COUNT; kind++) {
      true_claims(&uneven, "");
      for (int r = 0; r < RANKS; r++) claims[r].by[source].number[kind] = -1;
      compare("one claim less", NULL, "");
    }
  true_claims(&block, "");
  for (int r = 0; r < RANKS; r++)
    claims[r].by[SHOAL_SOURCE_PMIX].host[0] = claims[r].by[SHOAL_SOURCE_SLURM].host[0] = '\0';
  compare("hosts without names of others", NULL, "");
  /* Hosts may have names of the site's own, as long as these are distinct. */
  for (int r = 0; r < RANKS; r++)
    snprintf(claims[r].by[SHOAL_SOURCE_PMIX].host, SHOAL_HOST_MAX, "10.0.0.%c", block.hosts[r]);
  compare("addresses", NULL, "");
}

static void lie(shoal_source source, shoal_claim_kind kind, int rank, int value, const char *words, const char *more)
{
  true_claims(&uneven, "");
  claims[rank].by[source].number[kind] = value;
  compare("lie", words, more);
}

static void lies(void)
{
  static const shoal_source slurm = SHOAL_SOURCE_SLURM, pmix = SHOAL_SOURCE_PMIX;
  lie(slurm, SHOAL_CLAIM_RANKS, 0, 7, "rank 0 on n1: SLURM_STEP_NUM_TASKS says 7, but MPI sees 8", "");
  lie(slurm, SHOAL_CLAIM_RANK, 3, 4, "rank 3 on n4: SLURM_PROCID says 4, but MPI calls it rank 3", "");
  lie(slurm, SHOAL_CLAIM_NODES, 2, 3, "SLURM_STEP_NUM_NODES says 3", "ranks are on 4 (containers");
  lie(slurm, SHOAL_CLAIM_LISTED, 2, 9, "SLURM_STEP_NODELIST=n[1-4] names 9 nodes", "ranks are on 4");
  lie(slurm, SHOAL_CLAIM_LOCAL_RANKS, 1, 2, "rank 1 on n2: SLURM_STEP_TASKS_PER_NODE says 2", "1 of the ranks are on");
  lie(slurm, SHOAL_CLAIM_NODE, 4, 1, "SLURM_NODEID says 1 here and 0 on rank 0", "both ranks are on this host");
  lie(slurm, SHOAL_CLAIM_NODE, 1, 0, "rank 0 on n1: SLURM_NODEID says 0 here and 0 on rank 1", "another host");
  lie(slurm, SHOAL_CLAIM_LOCAL_RANK, 5, 0, "rank 5 on n3: SLURM_LOCALID says 0, as on rank 2", "both");
  lie(slurm, SHOAL_CLAIM_LOCAL_RANK, 7, 3, "rank 7 on n4: SLURM_LOCALID says 3", "only 3 of the ranks");
  lie(pmix, SHOAL_CLAIM_RANKS, 0, 4, "PMIX_JOB_SIZE says 4, but MPI sees 8", "");
  lie(pmix, SHOAL_CLAIM_RANK, 6, 0, "PMIX_RANK says 0, but MPI calls it rank 6", "");
  lie(pmix, SHOAL_CLAIM_NODES, 6, 1, "PMIX_NUM_NODES says 1", "");
  lie(pmix, SHOAL_CLAIM_LOCAL_RANKS, 6, 1, "PMIX_LOCAL_SIZE says 1", "3 of the ranks");
  lie(pmix, SHOAL_CLAIM_LOCAL_RANK, 6, 0, "PMIX_LOCAL_RANK says 0, as on rank 3", "");
  lie(pmix, SHOAL_CLAIM_NODE, 5, 3, "PMIX_NODEID says 3 here and", "");

  /* Two nodes with one number, seen from the lower one's side too. */
  true_claims(&block, "");
  for (int r = 0; r < 4; r++) claims[r].by[slurm].number[SHOAL_CLAIM_NODE] = 0;
  compare("two nodes, one number", "rank 0 on n1: SLURM_NODEID says 0 here and 0 on rank 2", "another host");

  true_claims(&block, "");
  snprintf(claims[3].by[pmix].host, SHOAL_HOST_MAX, "n3");
  compare("the host of another rank", "rank 3 on n2: PMIX_HOSTNAME calls this host n3, but that is the host of rank 4",
          "");
  true_claims(&block, "");
  for (int r = 0; r < RANKS; r++) snprintf(claims[r].by[pmix].host, SHOAL_HOST_MAX, "localhost");
  compare("localhost everywhere", "PMIX_HOSTNAME calls this host localhost", "also that of rank 2, which is on n2");
  true_claims(&block, "");
  snprintf(claims[1].by[slurm].host, SHOAL_HOST_MAX, "login");
  compare("two names for one host", "rank 1 on n1: SLURMD_NODENAME calls this host login, but on rank 0", "");
}

/* A host outside the list; a node Slurm knows by another name is in it. */
static void lists(void)
{
  const char step[] = "SLURM_STEP_NUM_TASKS=1\nSLURM_PROCID=0\nSLURM_STEP_NODELIST=n[1-4],cloud7.site.org\n";
  static const struct {
    const char *host;
    int listed;
  } hosts[] = { { "n3", 1 },  { "n3.site.org", 1 },      { "N3", 1 },       { "cloud7", 1 }, { "n5", 0 }, { "n", 0 },
                { "n33", 0 }, { "cloud7.other.org", 0 }, { "localhost", 0 } };
  for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++)
    CHECK_EQ(read_claims(step, hosts[i].host).listed, hosts[i].listed, "%s", hosts[i].host);
  char aliased[256];
  snprintf(aliased, sizeof aliased, "%sSLURMD_NODENAME=n2\n", step);
  CHECK_EQ(read_claims(aliased, "ip-10-0-0-2").listed, 1, "an alias");
  CHECK_EQ(read_claims("SLURM_STEP_NUM_TASKS=1\n", "n5").listed, -1, "no list");
  /* Nothing is taken from a list that cannot be read in full. */
  shoal_claims c = { .launcher = 77 };
  setenv("SLURM_STEP_NODELIST", "n[1-", 1);
  CHECK_STATUS(shoal_claims_read(NULL, "n1", &c), SHOAL_ERR_WORLD, "a broken list");
  CHECK_EQ(c.by[SHOAL_SOURCE_SLURM].number[SHOAL_CLAIM_RANKS], -1);
  CHECK_EQ(c.launcher, -1);
  CHECK_HAS(check_error(), "SLURM_STEP_NODELIST \"n[1-\", position 5");
  true_claims(&block, "");
  claims[5].listed = 0;
  compare("outside", "SLURM_STEP_NODELIST is n[1-4], but this host is not in it", "rank 5 on n3");
}

/* Which launcher set the variables. */
static void sources(void)
{
  const char step[] =
      "SLURM_STEP_NUM_TASKS=4\nSLURM_STEP_NUM_NODES=4\nSLURM_PROCID=1\nSLURM_NODEID=1\nSLURM_LOCALID=0\n"
      "SLURM_STEP_NODELIST=n[1-4]\nSLURM_STEP_TASKS_PER_NODE=1(x4)\nSLURMD_NODENAME=n2\n";
  char text[1024];
  static const struct {
    const char *more;
    int tasks, launcher, ranks, local;
  } cases[] = {
    { "", 4, -1, -1, -1 },
    { "PMIX_NAMESPACE=slurm.pmix.7.0\nPMIX_RANK=1\n", 4, -1, -1, -1 },
    { "PMI_SIZE=4\nPMI_RANK=1\nPMI_FD=5\n", 4, 2, 4, -1 }, /* srun --mpi=pmi2 */
    { "OMPI_COMM_WORLD_SIZE=8\nOMPI_COMM_WORLD_RANK=3\nOMPI_COMM_WORLD_LOCAL_SIZE=2\nPMIX_NAMESPACE=345\n", -1, 0, 8,
      2 },
    { "PMIX_NAMESPACE=prterun-n1-77@1\nPMIX_RANK=3\n", -1, -1, -1, -1 },
    { "PMI_SIZE=8\nPMI_RANK=3\nPMI_FD=5\nMPI_LOCALNRANKS=2\n", -1, 2, 8, 2 }, /* MPICH's mpiexec */
    { "SLURM_HET_SIZE=2\nPMIX_NAMESPACE=slurm.pmix.7.0\n", -1, -1, -1, -1 },
  };
  for (size_t i = 0; i < SHOAL_COUNT(cases); i++) {
    snprintf(text, sizeof text, "%s%s", step, cases[i].more);
    shoal_claims c = read_claims(text, "n2");
    int slurm = c.by[SHOAL_SOURCE_SLURM].number[SHOAL_CLAIM_RANKS];
    CHECK_EQ(slurm, cases[i].tasks, "%s", cases[i].more);
    CHECK_EQ(c.launcher, cases[i].launcher, "%s", cases[i].more);
    CHECK_EQ(c.step_tasks, 4, "%s", cases[i].more);
    CHECK_EQ(c.by[SHOAL_SOURCE_LAUNCHER].number[SHOAL_CLAIM_RANKS], cases[i].ranks, "%s: the launcher's numbers",
             cases[i].more);
    CHECK_EQ(c.by[SHOAL_SOURCE_LAUNCHER].number[SHOAL_CLAIM_LOCAL_RANKS], cases[i].local, "%s: the launcher's numbers",
             cases[i].more);
    CHECK_EQ(c.listed == 1, cases[i].tasks > 0, "%s: list", cases[i].more);
  }
  shoal_claims batch = read_claims("SLURM_NTASKS=8\nSLURM_PROCID=0\nSLURM_NODEID=0\nSLURM_JOB_NODELIST=m[1-4]\n", "n2");
  CHECK_EQ(batch.step_tasks, 0);
  CHECK_EQ(batch.listed, -1);
  CHECK_EQ(batch.by[SHOAL_SOURCE_SLURM].number[SHOAL_CLAIM_RANK], -1);
  shoal_claims *c = &claims[0];
  c->launcher = 0;
  CHECK_STR(shoal_claims_name(c, SHOAL_SOURCE_LAUNCHER, SHOAL_CLAIM_LOCAL_RANKS), "OMPI_COMM_WORLD_LOCAL_SIZE");
}

static void names(void)
{
  static const struct {
    const char *one, *other;
    bool same;
  } pairs[] = { { "n1", "n1", true },           { "n1", "n1.site.org", true },
                { "N1.site.org", "n1", true },  { "n1.Site.org", "n1.site.org", true },
                { "n1", "n11", false },         { "n1.a.org", "n1.b.org", false },
                { "n1", "n2.site.org", false }, { "", "n1", false } };
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
    CHECK_EQ(shoal_topo_same_host(pairs[i].one, pairs[i].other), pairs[i].same, "\"%s\" and \"%s\"", pairs[i].one,
             pairs[i].other);
}

int main(void)
{
  names();
  truths();
  lies();
  lists();
  sources();
  return check_done();
}
