/* model.class_weights: how much a training sample of each class counts in the loss. */
#ifndef SHOAL_TRAIN_CLASS_WEIGHTS_H
#define SHOAL_TRAIN_CLASS_WEIGHTS_H
#include "config/option.h"
#include "data/labels.h"
#include "nn/model.h"

/** What can be said of the option without the data.  ERR_USAGE for words other than none and balanced, and for numbers below 0. */
shoal_status shoal_class_weights_check(const shoal_config *c);
/** Gives the model the weights that the option asks for, scaled to a mean of 1 over the training samples.
 *  @return ERR_USAGE if the data set has targets or is text, or if the weights do not fit its classes */
shoal_status shoal_class_weights_take(const shoal_config *c, shoal_dataset *d, shoal_model *m);
/** "0.5051 (class 0 "no", 990 samples) to 50 (class 1 "yes", 10 samples)": the smallest and the largest weight of a class with training
 *  samples. */
void shoal_class_weights_add(const shoal_host_float *weights, const shoal_labels *l, shoal_str *out);
#endif
