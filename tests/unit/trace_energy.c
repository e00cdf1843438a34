/* Energy counters of a made-up machine: which domains are read, that a counter which begins anew loses nothing, and what the file
 * says.  Real counters are read by whoever has them. */
#include "h5/h5.h"
#include "report/trace.h"
#include "unit/h5_temp.h"
#include <errno.h>
#include <sys/stat.h>

static const shoal_trace_info info = { .run_name = "e", .size = 1, .attempt = 1, .node_cpus = 64, .job_cpus = 8 };

static void put(const char *zone, const char *file, const char *text)
{
  char path[512];
  snprintf(path, sizeof path, "powercap/%s", zone);
  CHECK(mkdir(temp_path(path), 0700) == 0 || errno == EEXIST, "%s", path);
  snprintf(path, sizeof path, "powercap/%s/%s", zone, file);
  temp_write(temp_path(path), text, strlen(text));
}

static void put_zone(const char *zone, const char *name, const char *uj)
{
  put(zone, "name", name);
  put(zone, "energy_uj", uj);
  put(zone, "max_energy_range_uj", "262143328850\n");
}

static shoal_trace_file_data *traced(const char *powercap, bool moves)
{
  const char *path = temp_fresh(temp_path("energy.h5"));
  shoal_trace *t;
  shoal_trace_info with = info;
  shoal_trace_file_data *f = NULL;
  with.powercap = powercap;
  REQUIRE(shoal_trace_open(path, SHOAL_TRACE_BY_STEP, &with, &t) == SHOAL_OK, "open: %s", check_error());
  if (moves) {
    put("intel-rapl:0", "energy_uj", "1500\n");
    put("intel-rapl:1", "energy_uj", "262143328840\n");
    CHECK_OK(shoal_trace_flush(t, true));
    put("intel-rapl:0", "energy_uj", "1700\n");
    put("intel-rapl:1", "energy_uj", "90\n"); /* 10 to its end, and 90 from 0 */
  }
  CHECK_OK(shoal_trace_close(t));
  REQUIRE(shoal_trace_read(path, &f) == SHOAL_OK, "reading: %s", check_error());
  return f;
}

int main(void)
{
  temp_make();
  CHECK_EQ(mkdir(temp_path("powercap"), 0700), 0);
  put_zone("intel-rapl:0", "package-0\n", "1000\n");
  put_zone("intel-rapl:1", "package-1\n", "262143328000\n");
  put_zone("intel-rapl:0:0", "core\n", "500\n");          /* part of package 0 */
  put_zone("intel-rapl:2", "psys\n", "5\n");              /* holds the packages */
  put_zone("intel-rapl-mmio:0", "package-0\n", "1000\n"); /* the same again, by another way */
  put_zone("dtpm", "package-9\n", "1\n");                 /* not RAPL */
  put("intel-rapl:3", "name", "package-3\n");             /* a counter that cannot be read */
  put("intel-rapl:3", "max_energy_range_uj", "9\n");
  put_zone("intel-rapl:4", "package-4\n", "many\n");
  shoal_trace_file_data *f = traced(temp_path("powercap"), true);
  REQUIRE(f->n_energies == 2, "%zu domains", f->n_energies);
  CHECK_STR(f->energies[0].domain, "package-0");
  CHECK_STR(f->energies[1].domain, "package-1");
  CHECK_EQ(f->energies[0].uj, 700);
  CHECK_EQ(f->energies[1].uj, 840 + 100);
  CHECK_GT(f->energies[0].t1_ns, f->energies[0].t0_ns);
  CHECK_EQ(f->node_cpus, 64);
  CHECK_EQ(f->job_cpus, 8);
  shoal_trace_file_data_destroy(f);
  const char *without[] = { temp_path("no such folder"), NULL };
  for (int i = 0; i < 2; i++) {
    f = traced(without[i], false);
    CHECK_EQ(f->n_energies, 0);
    CHECK_EQ(f->node_cpus, 0);
    shoal_trace_file_data_destroy(f);
  }
  return check_done();
}
