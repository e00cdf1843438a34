/* See method_rig.h. */
#include "method_rig.h"
#include "base/mem.h"
#include "base/rng.h"
#include <mpi.h>

static void configure(method_rig *m, const shoal_model_entry *model)
{
  shoal_settings *s;
  char text[512];
  const shoal_option_table tables[] = { { "model", model->options },
                                        { "optim", shoal_optim_options },
                                        { "method", m->method->options } };
  REQUIRE(shoal_settings_create(&s) == SHOAL_OK, "settings");
  snprintf(text, sizeof text, "model.widths=[24] optim.decay_on=all %s", m->setup.settings);
  for (char *save, *one = strtok_r(text, " ", &save); one; one = strtok_r(NULL, " ", &save))
    REQUIRE(shoal_settings_set(s, one, "test") == SHOAL_OK, "%s", one);
  REQUIRE(shoal_config_create(s, tables, SHOAL_COUNT(tables), &m->config) == SHOAL_OK, "options %s", text);
  shoal_settings_destroy(s);
}

static void open_run(method_rig *m)
{
  shoal_run *r = &m->run;
  shoal_trace *trace;
  shoal_optim_config optim;
  const shoal_trace_info info = { .run_name = "rig", .config_text = "", .host = "" };
  REQUIRE(shoal_trace_open(NULL, SHOAL_TRACE_OFF, &info, &trace) == SHOAL_OK, "trace");
  REQUIRE(shoal_backend_open("ref", 1, &r->backend) == SHOAL_OK, "backend");
  shoal_world_set_counters(m->world, shoal_trace_counters(trace));
  r->world = m->world;
  r->all = shoal_world_group(m->world);
  r->control = shoal_world_control(m->world);
  r->trace = trace;
  r->config = m->config;
  r->model = m->model;
  r->form = &m->form;
  r->epochs = (double)m->setup.epochs;
  r->seed = 1;
  r->steps_per_epoch = m->setup.batches;
  void *memory;
  REQUIRE(shoal_group_share(r->all, m->model->weights * sizeof(float), &memory) == SHOAL_OK, "gradients");
  m->gradients = memory;
  REQUIRE(shoal_optim_configure(m->config, &optim) == SHOAL_OK, "optimizer");
  REQUIRE(shoal_form_init(r->backend, m->model, &optim, m->gradients, &m->form) == SHOAL_OK, "form");
  CHECK_OK(shoal_model_init(r->backend, m->model, r->seed, m->form.params->w, m->form.params->stats));
  REQUIRE(shoal_form_plan(r->backend, 1, &m->form) == SHOAL_OK, "plan");
}

void method_rig_open(method_rig *m, const method_rig_setup *setup)
{
  const shoal_model_entry *model = shoal_model_find("mlp");
  shoal_shape input = { 1, { 20 } };
  shoal_world_options o = { .pretend = setup->pretend, .warn_s = 20, .hang_s = 40 };
  *m = (method_rig){ .setup = *setup, .method = shoal_method_find(setup->method) };
  REQUIRE(m->method, "method %s", setup->method);
  REQUIRE(model, "method %s", setup->method);
  REQUIRE(shoal_world_open(&o, &m->world) == SHOAL_OK, "world %s", setup->pretend ? setup->pretend : "");
  m->rank = shoal_world_rank(m->world);
  m->size = shoal_world_size(m->world);
  configure(m, model);
  REQUIRE(model->build(m->config, &input, 5, &m->model) == SHOAL_OK, "model");
  open_run(m);
  m->everyone = calloc((size_t)m->size * m->run.form->params->n, sizeof *m->everyone);
  m->state = calloc(1, m->method->state_size);
  REQUIRE(m->everyone, "open %s", setup->settings);
  REQUIRE(m->state, "open %s", setup->settings);
  REQUIRE(m->method->open(&m->run, m->state) == SHOAL_OK, "open %s", setup->settings);
}

void method_rig_close(method_rig *m)
{
  shoal_run *r = &m->run;
  m->method->close(r, m->state);
  free(m->state);
  free(m->everyone);
  shoal_form_fini(r->backend, &m->form);
  shoal_group_unshare(r->all, m->gradients);
  shoal_model_destroy(m->model);
  shoal_backend_close(r->backend);
  shoal_world_set_counters(m->world, NULL);
  shoal_trace_close(r->trace);
  shoal_world_close(m->world);
  shoal_config_destroy(m->config);
}

/* ---- the problem ---- */

uint64_t method_rig_total(const method_rig *m, uint64_t step)
{
  bool last = step % m->setup.batches == m->setup.batches - 1;
  return last && m->setup.last ? m->setup.last : m->setup.total;
}

double method_rig_strength(size_t i)
{
  return 0.25 + 0.75 * (double)(i * 7 % 11) / 11;
}

double method_rig_place(const method_rig *m, uint64_t sample, size_t i)
{
  shoal_rng_block b = shoal_rng(11, SHOAL_RNG_TEST, i, m->setup.same_data ? 0 : (uint32_t)sample);
  return (double)shoal_rng_unit(b.v[0]) * 2 - 1;
}

double method_rig_pull(const method_rig *m, uint64_t step, int rank, size_t i, double w, uint64_t *n)
{
  uint64_t first, count, total = method_rig_total(m, step);
  double sum = 0;
  shoal_share_of(total, rank, m->size, &first, &count);
  for (uint64_t s = first; s < first + count; s++) sum += w - method_rig_place(m, step * m->setup.total + s, i);
  if (n) *n = count;
  return method_rig_strength(i) * sum;
}

void method_rig_sgd(const method_rig *m, method_rig_weight *x, double g, uint64_t step)
{
  const shoal_optim_config *c = &m->run.form->optim->config;
  g += (double)c->weight_decay * x->w;
  x->v = step ? (double)c->momentum * x->v + g : g;
  x->w -= (double)m->lr * (c->nesterov ? g + (double)c->momentum * x->v : x->v);
}

double method_rig_error(const float *a, const double *b, size_t n)
{
  double worst = 0, largest = 0;
  for (size_t i = 0; i < n; i++) {
    worst = worse(worst, fabs((double)a[i] - b[i]));
    largest = fmax(largest, fabs(b[i]));
  }
  return worst / largest;
}

/* ---- the step ---- */

static shoal_status gradients(method_rig *m)
{
  shoal_run *r = &m->run;
  uint64_t total = method_rig_total(m, r->step), first, count;
  const shoal_range *range;
  size_t n = shoal_plan_ranges(m->form.plan, &range);
  double samples = m->method->samples ? m->method->samples(r, m->state, total) : (double)total;
  shoal_share_of(total, m->rank, m->size, &first, &count);
  memset(r->form->params->g, 0, r->form->params->n * sizeof(float));
  if (count == 0) return SHOAL_OK;
  for (size_t k = 0; k < n; k++) {
    for (size_t i = range[k].offset; i < range[k].offset + range[k].count; i++)
      r->form->params->g[i] =
          (float)(method_rig_pull(m, r->step, m->rank, i, (double)r->form->params->w[i], NULL) / samples);
    if (m->method->announce) SHOAL_TRY(m->method->announce(r, m->state, range[k].offset, range[k].count));
  }
  return SHOAL_OK;
}

static void check_bytes(method_rig *m)
{
  uint64_t counted[SHOAL_LINK_COUNT];
  method_rig_counted(m, counted);
  for (int link = 0; link < SHOAL_LINK_COUNT; link++) m->claimed[link] += m->run.sent[link];
  memset(m->run.sent, 0, sizeof m->run.sent);
  for (int link = SHOAL_LINK_SELF; link <= SHOAL_LINK_BETWEEN; link++)
    if (!m->run.batches || m->run.batch + 1 == m->run.batches) /* in mid-epoch a sum may be half under way */
      CHECK_EQ(counted[link], m->claimed[link], "%s, %s, step %llu, rank %d: bytes on %s", m->setup.pretend,
               m->setup.settings, (unsigned long long)m->run.step, m->rank, shoal_link_name(link));
}

shoal_status method_rig_step(method_rig *m, float lr, double loss)
{
  shoal_run *r = &m->run;
  m->lr = lr;
  r->rate = (double)lr;
  r->epoch = r->step / m->setup.batches;
  r->batch = r->step % m->setup.batches;
  r->batches = m->setup.batches;
  SHOAL_TRY(gradients(m));
  if (m->method->grads_ready) SHOAL_TRY(m->method->grads_ready(r, m->state));
  SHOAL_TRY(shoal_form_step(r->form, lr));
  if (m->method->weights_ready) SHOAL_TRY(m->method->weights_ready(r, m->state));
  check_bytes(m);
  bool last = r->batch + 1 == r->batches;
  if (last && m->method->epoch_end) SHOAL_TRY(m->method->epoch_end(r, m->state, loss));
  r->step++;
  return SHOAL_OK;
}

void method_rig_counted(const method_rig *m, uint64_t out[SHOAL_LINK_COUNT])
{
  memcpy(out, shoal_trace_counters(m->run.trace)->payload, SHOAL_LINK_COUNT * sizeof *out);
}

const float *method_rig_gather(method_rig *m)
{
  int n = (int)m->run.form->params->n;
  MPI_Allgather(m->run.form->params->w, n, MPI_FLOAT, m->everyone, n, MPI_FLOAT, MPI_COMM_WORLD);
  return m->everyone;
}
