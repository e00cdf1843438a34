/* Whether all nodes see one run folder: the one whose lease rank 0 has taken.
 *
 * A path such as /tmp/runs, or one relative to a working folder that differs by node, is another folder on every node.  Ranks would
 * then resume from different checkpoints, or from none.  So one rank of each node looks for the lease with its token, before anything
 * else is read or written; what a node lacks ends the start.  A network file system may show a new file later on other nodes, because
 * it remembers for a while what was not there: those are waited for. */
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/session.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* NETWORK: NFS remembers for up to 60 s unless told otherwise.  LOCAL: who looks may be the server of the others. */
enum { NETWORK_S = 75, LOCAL_S = 2, TELL_S = 3, NAP_US = 200000 };

/* Listing a folder makes NFS ask its server instead of its memory. */
static void list(const char *dir)
{
  DIR *d = opendir(dir);
  if (!d) return;
  (void)readdir(d);
  closedir(d);
}

static bool sees(const shoal_folder *f)
{
  if (shoal_folder_is_ours(f)) return true;
  char *above = shoal_strdup_printf("%.*s.", (int)(shoal_path_base(f->dir) - f->dir), f->dir);
  list(above);
  list(f->dir);
  free(above);
  return shoal_folder_is_ours(f);
}

/* ERR_WORLD, of the lowest rank that does not see it. */
static shoal_status refuse(const shoal_session *s, int64_t nodes)
{
  const shoal_folder *f = &s->world.folder;
  const shoal_topo *t = shoal_world_topo(s->run.world);
  const shoal_place *p = shoal_world_place(s->run.world);
  char here[4096] = "", more[64] = "";
  const char *finds = shoal_folder_has_checkpoints(f) ? "a folder with other checkpoints"
                      : shoal_path_exists(f->dir)     ? "another folder"
                                                      : "no such folder";
  int fault = shoal_folder_lease_fault(f);
  if (fault) finds = strerror(fault);
  if (f->dir[0] == '/' || !getcwd(here, sizeof here)) here[0] = '\0';
  if (nodes > 1)
    snprintf(more, sizeof more, ", and %lld more node%s fail%s likewise", (long long)nodes - 1, nodes > 2 ? "s" : "",
             nodes > 2 ? "" : "s");
  return SHOAL_FAIL(
      SHOAL_ERR_WORLD,
      "%s%s%s is not the same folder on all nodes: rank 0 (%s) has taken it, but rank %d (%s) finds %s%s; "
      "choose a run.dir on a file system that all nodes share",
      here, *here ? "/" : "", f->dir, t->places[0].host, shoal_world_rank(s->run.world), p->host, finds, more);
}

shoal_status shoal_session_see_folder(shoal_session *s)
{
  const shoal_topo *t = shoal_world_topo(s->run.world);
  const shoal_place *p = shoal_world_place(s->run.world);
  const shoal_folder *f = &s->world.folder;
  const int mine = shoal_world_rank(s->run.world);
  bool looks = p->local_rank == 0, told = false;
  double patience = shoal_disk_is_local(f->dir) ? LOCAL_S : NETWORK_S;
  uint64_t t0 = shoal_now_ns();
  for (;;) {
    /* Of the ranks that see nothing the lowest one counts; odd: it still hopes. */
    bool blind = looks && !sees(f), hopes = shoal_seconds_since(t0) < patience;
    int64_t lowest = blind ? 2 * (t->size - mine) + hopes : 0, nodes = blind;
    SHOAL_TRY(shoal_group_agree_max(s->run.control, "run folder", &lowest));
    if (lowest == 0) return SHOAL_OK;
    int rank = t->size - (int)(lowest / 2);
    if (lowest % 2 == 0) {
      SHOAL_TRY(shoal_group_sum_i64(s->run.control, &nodes, 1));
      return shoal_group_agree(s->run.control, mine == rank ? refuse(s, nodes) : SHOAL_OK);
    }
    if (!told && shoal_seconds_since(t0) > TELL_S) {
      told = true;
      shoal_info("rank %d (%s) does not see %s/lease yet: waiting for up to %d s", rank, t->places[rank].host, f->dir,
                 NETWORK_S);
    }
    SHOAL_TRY(shoal_session_agree(s, SHOAL_OK));
    usleep(NAP_US);
  }
}
