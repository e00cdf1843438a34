# Tests of src/method; those of ist use nn_rig.c of the tests of nn.
foreach(topic daso_schedule local_sgd_schedule graph swarm swarm_saved swarm_segment svd ab_schedule ab_groups ab_layers local_plan local_replay)
  shoal_add_test(unit.method.${topic} SOURCES unit/method_${topic}.c LINK shoal_method m LABELS unit)
endforeach()
foreach(topic draw layout tables function)
  shoal_add_test(unit.method.ist_${topic} SOURCES unit/method_ist_${topic}.c unit/nn_rig.c LINK shoal_method m LABELS unit)
endforeach()
shoal_add_test(unit.method.local_parts SOURCES unit/method_local_parts.c unit/nn_rig.c LINK shoal_method m LABELS unit)
# Plans of very large runs, on this machine alone: times and bytes by hand, see the file; here every rank of 1000 is checked.
shoal_add_test(bench.scale_plan SOURCES bench/scale_plan.c LINK shoal_method m ARGS --check 1000 LABELS unit)
