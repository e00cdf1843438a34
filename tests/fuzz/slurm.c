/* Slurm's variables, as a file of `env`: the step, the claims, and a placement planned from them. */
#include "fuzz/fuzz.h"
#include "slurm/claims.h"
#include "slurm/plan.h"

static void plan(const shoal_env *e)
{
  static shoal_machine *machine;
  shoal_step s;
  shoal_topo *t;
  if (!machine) FUZZ_CHECK(shoal_machine_open(NULL, &machine) == SHOAL_OK);
  if (shoal_step_read(e, &s) != SHOAL_OK) return;
  if (s.tasks < 4096 && shoal_topo_plan((const shoal_machine *const[]){ machine }, 1, e, &s, &t) == SHOAL_OK) {
    FUZZ_CHECK(t->size == (s.tasks > 0 ? s.tasks : 1));
    for (int r = 0; r < t->size; r++) FUZZ_CHECK(t->places[r].node >= 0 && t->places[r].node < t->nodes);
    shoal_topo_destroy(t);
  }
  shoal_step_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  shoal_env *e;
  shoal_claims c;
  if (shoal_env_read(fuzz_file("env", data, n), &e) != SHOAL_OK) return 0;
  (void)shoal_claims_read(e, "n1", &c);
  plan(e);
  shoal_env_destroy(e);
  return 0;
}
