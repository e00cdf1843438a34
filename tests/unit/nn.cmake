# Tests of src/nn.  nn_rig.c is what they share.
function(shoal_add_nn_test topic)
  shoal_add_test(unit.nn.${topic} SOURCES unit/nn_${topic}.c unit/nn_rig.c LINK shoal_nn m LABELS unit ${ARGN})
endfunction()
shoal_add_nn_test(gradients)
