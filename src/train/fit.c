/* See fit.h. */
#include "train/fit.h"
#include <math.h>
#include <stdio.h>

bool shoal_fit_add(shoal_fit *fit, size_t n, const shoal_host_float *y, const shoal_host_float *t)
{
  if (isnan(t[0])) return false;
  for (size_t k = 0; k < n; k++)
    if (!isfinite(y[k])) return false;
  for (size_t k = 0; k < n; k++) {
    const double z = t[k], e = y[k] - z;
    fit[k].n++;
    fit[k].squares += e * e;
    fit[k].absolutes += fabs(e);
    fit[k].sum += z;
    fit[k].sum_squares += z * z;
  }
  return true;
}

shoal_fit_scores shoal_fit_score(const shoal_fit *fit, double std)
{
  const double spread = fit->sum_squares - fit->sum * fit->sum / fit->n;
  return (shoal_fit_scores){ .rmse = std * sqrt(fit->squares / fit->n),
                             .mae = std * fit->absolutes / fit->n,
                             .r2 = spread > 0 ? 1 - fit->squares / spread : NAN };
}

shoal_fit_scores shoal_fit_mean_score(const shoal_fit *fit, size_t n, const double *std)
{
  shoal_fit_scores sum = { 0 };
  for (size_t k = 0; k < n; k++) {
    const shoal_fit_scores one = shoal_fit_score(&fit[k], n == 1 ? std[k] : 1);
    sum.rmse += one.rmse / (double)n;
    sum.mae += one.mae / (double)n;
    sum.r2 += one.r2 / (double)n;
  }
  return sum;
}

const char *shoal_fit_text(const shoal_fit_scores *s, size_t n, char *buf, size_t cap)
{
  char several[64] = "";
  if (n > 1) snprintf(several, sizeof several, "means of %zu targets in deviations: ", n);
  const int used = snprintf(buf, cap, "%srmse %.6g, mae %.6g", several, s->rmse, s->mae);
  if (isfinite(s->r2) && (size_t)used < cap) snprintf(buf + used, cap - (size_t)used, ", R2 %.4g", s->r2);
  return buf;
}
