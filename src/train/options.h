/* The run file's own options: everything that is not the model's, the optimizer's or the method's. */
#ifndef SHOAL_TRAIN_OPTIONS_H
#define SHOAL_TRAIN_OPTIONS_H
#include "config/option.h"
#include "method/method.h"

/** All tables that apply to a run file that names this model and method (either may be NULL): out [SHOAL_TABLES]. */
enum { SHOAL_TABLES = 5 };
size_t shoal_run_tables(const shoal_model_entry *model, const shoal_method *method,
                        shoal_option_table out[SHOAL_TABLES]);
/** Read a run file and assignments ("a.b=c"), pick the tables by model.name and method.name, check everything.
 *  ERR_USAGE names every fault; an unknown model or method names the nearest. */
shoal_status shoal_run_configure(const char *run_file, const char *const *sets, size_t n_sets, shoal_config **out);
#endif
